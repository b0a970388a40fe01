package lab

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script writes a program that stands in for the binary. Nobody may start another one
// meanwhile: it would inherit the open file, and a program that is open for writing
// cannot be started.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "doorbuster")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700)) //nolint:gosec // a program
	return path
}

func TestDemoShowsWhyTheServerDidNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	_, err := Demo(t.Context(), DemoOptions{Binary: script(t, "echo the disk is on fire >&2; exit 7"), Dir: dir}, &out)
	require.ErrorContains(t, err, "exit status 7")
	require.ErrorContains(t, err, "the disk is on fire")
	require.NotErrorIs(t, err, ErrBroken)
	require.Empty(t, out.String())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the temporary folder is removed")
}

func TestDemoStopsAServerThatDoesNotBecomeReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Demo(ctx, DemoOptions{Binary: script(t, "exec sleep 60"), Dir: dir}, &bytes.Buffer{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemoRefusesImpossibleNumbers(t *testing.T) {
	t.Parallel()
	for _, o := range []DemoOptions{{Buyers: -1}, {Stock: -1}, {Buyers: mostBuyers + 1}} {
		_, err := Demo(t.Context(), o, &bytes.Buffer{})
		require.ErrorContains(t, err, "from 1 to")
	}
}
