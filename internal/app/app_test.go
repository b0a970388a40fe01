package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func load(t *testing.T, dir string, flags ...config.Flag) config.Config {
	t.Helper()
	flags = append([]config.Flag{
		{Name: "--data-dir", Key: "data_dir", Value: dir},
		{Name: "--api-listen", Key: "api.listen", Value: "127.0.0.1:0"},
		{Name: "--ops-listen", Key: "ops.listen", Value: "127.0.0.1:0"},
	}, flags...)
	loaded, err := config.Load(config.Sources{Flags: flags})
	require.NoError(t, err)
	return loaded.Config
}

// start runs a server until stop, which returns what Run returned.
func start(t *testing.T, cfg config.Config) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	notes, w := io.Pipe()
	go func() {
		err := Run(ctx, cfg, Output{Log: io.Discard, Notes: w, Version: "test"})
		_ = w.CloseWithError(io.EOF)
		ended <- err
	}()
	var text strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(text.String(), "API on") {
		n, err := notes.Read(buf)
		require.NoError(t, err, "the server ended: %s", text.String())
		text.Write(buf[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, notes) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func get(t *testing.T, dir, file, path string) int {
	t.Helper()
	address, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.TrimSpace(string(address))+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestServerStartsStopsAndStartsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := load(t, dir)
	stop := start(t, cfg)
	require.Equal(t, http.StatusOK, get(t, dir, OpsAddressFile, "/readyz"))
	require.Equal(t, http.StatusOK, get(t, dir, APIAddressFile, "/v1/sales"))
	for _, name := range []string{AdminKeyFile, TokenKeyFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	key, err := os.ReadFile(filepath.Join(dir, AdminKeyFile))
	require.NoError(t, err)

	err = Run(t.Context(), cfg, Output{Log: io.Discard, Notes: io.Discard})
	require.ErrorIs(t, err, sqliteledger.ErrLocked, "a second server")
	require.NoError(t, stop())

	stop = start(t, cfg)
	again, err := os.ReadFile(filepath.Join(dir, AdminKeyFile))
	require.NoError(t, err)
	require.Equal(t, key, again, "keys outlive the server")
	require.NoError(t, stop())
}

func TestDevelopmentKeysAreForLoopbackOnly(t *testing.T) {
	t.Parallel()
	cfg := load(t, t.TempDir())
	cfg.API.Listen = "0.0.0.0:8080"
	_, _, err := tokenSource(&cfg)
	require.Equal(t, sale.CodeInvalid, sale.CodeOf(err))

	book, err := OpenLedger(t.Context(), cfg.Ledger.URL, Own, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, book.Close()) }()
	require.NoError(t, refuseAdminKey(t.Context(), book, cfg.API.Listen), "a ledger without keys")
	made, err := ensureAdminKey(t.Context(), book, cfg.DataDir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cfg.DataDir, AdminKeyFile), made)
	err = refuseAdminKey(t.Context(), book, cfg.API.Listen)
	require.Equal(t, sale.CodeInvalid, sale.CodeOf(err))
	require.ErrorContains(t, err, cfg.API.Listen)

	keys, err := book.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.NoError(t, book.RevokeAPIKey(t.Context(), keys[0].ID))
	own, _, err := auth.NewAPIKey("ours", []string{"admin"})
	require.NoError(t, err)
	require.NoError(t, book.PutAPIKey(t.Context(), own))
	require.NoError(t, refuseAdminKey(t.Context(), book, cfg.API.Listen), "revoked, and one of our own")
}

func TestReadinessRemembersATroubleBriefly(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	b := batches{Engine: &obs.New(registry, "test").Engine}
	require.NoError(t, b.trouble())
	b.Batched(engine.FromLedger, 1, time.Millisecond, errors.New("disk full"))
	require.ErrorContains(t, b.trouble(), "disk full")
	b.Batched(engine.FromLedger, 1, time.Millisecond, nil)
	require.NoError(t, b.trouble())
}

func TestProbeServesManyWithOneLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p probe
		looks := 0
		look := func() error {
			return p.look(t.Context(), func(context.Context) error {
				looks++
				return errStopping
			})
		}
		for range 10 {
			require.ErrorIs(t, look(), errStopping)
		}
		require.Equal(t, 1, looks)
		<-time.After(probeLasts + time.Millisecond) //nolint:forbidigo // the bubble's fake clock
		require.ErrorIs(t, look(), errStopping)
		require.Equal(t, 2, looks)
	})
}
