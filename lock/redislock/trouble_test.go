package redislock_test

import (
	"errors"
	"strconv"

	"github.com/doorbuster/doorbuster/lock"
)

// asTrouble finds an error of the store.
func asTrouble(err error, out **lock.StoreError) bool {
	trouble, ok := errors.AsType[*lock.StoreError](err)
	*out = trouble
	return ok
}

func decimal(f lock.Fence) string { return strconv.FormatUint(uint64(f), 10) }
