package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/doorbuster/doorbuster/internal/config"
)

// FuzzConfig feeds files to the loader: it must return a valid configuration or
// mistakes, and what it accepts must print and read back as itself.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", "api:\n  listen: 127.0.0.1:1\n", "log: {level: warn}\n", "api: {trusted_proxies: [10.0.0.0/8, ::1]}", "a: &x [*x]", "? {a: b}\n: c",
		"holds:\n  sweep_interval: |\n    500ms\n", "data_dir: \"\\u0000\"", "--- \n...\n---\n", "!!map {}", "<<: {a: b}", "engine:\n\tmax_batch: 1",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "f.yaml") // each fuzzing process has its own
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Load(config.Sources{File: path})
		if err != nil {
			if _, ok := errors.AsType[*config.Error](err); !ok {
				t.Fatalf("not a list of mistakes: %v", err)
			}
			return
		}
		var out bytes.Buffer
		if err = errors.Join(l.WriteYAML(&out), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		back, err := config.Load(config.Sources{File: path})
		if err != nil {
			t.Fatalf("what was accepted does not read back: %v", err)
		}
		for i, v := range back.Values() {
			before := l.Values()[i]
			if len(before.Value) != len(v.Value) {
				t.Fatalf("%s: %q became %q", v.Key, before.Value, v.Value)
			}
			for j := range v.Value {
				if before.Value[j] != v.Value[j] {
					t.Fatalf("%s: %q became %q", v.Key, before.Value, v.Value)
				}
			}
		}
	})
}
