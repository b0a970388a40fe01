package stocktest_test

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	stocktest.Run(t, stocktest.MemWorld)
}
