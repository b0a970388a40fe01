package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Binary returns the path of the doorbuster binary: the one that TESTENV_BINARY
// names, as `make test` builds it once for all packages, or else one built from
// the tree under test at first use. It is built without the race detector, so
// that crowds meet what users run.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatalf("build doorbuster: %v", err)
	}
	return path
}

// build is a variable of the package because a binary is built once per test
// process, whatever number of tests asks for it.
//
//nolint:gochecknoglobals // see above
var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TESTENV_BINARY"); path != "" {
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	// One place per user and tree; go build replaces the file in one step and
	// does nothing when it is up to date.
	dir := filepath.Join(root, ".bin", "testenv")
	if err = os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a build folder, as open as the tree
		return "", err
	}
	path := filepath.Join(dir, "doorbuster")
	temp, err := os.CreateTemp(dir, "build-*")
	if err != nil {
		return "", err
	}
	_ = temp.Close()
	defer func() { _ = os.Remove(temp.Name()) }()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", temp.Name(), "./cmd/doorbuster") //nolint:gosec // fixed words; the test's own deadline ends it
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return "", err
	}
	return path, nil
})

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
}
