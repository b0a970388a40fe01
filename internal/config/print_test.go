package config_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/config"
)

func TestPrintedConfigurationReadsBack(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Sources{File: file(t, `data_dir: "a: b [c]"
api:
  cors_origins: [https://a.example, "*"]
  trusted_proxies: ["2001:db8::/32"]
  proxy_protocol: "on"
gate:
  mode: "off"
  captcha: {provider: hcaptcha, site_key: "12", secret_file: s, hostnames: [shop.example]}
auth:
  jwt: {issuer: "no", audience: "12", algorithm: ES256, jwks_url: https://issuer.example/keys}
`), Environ: []string{"DOORBUSTER_LOG_LEVEL=warn"}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, l.WriteYAML(&out))
	require.Contains(t, out.String(), "level: warn  # DOORBUSTER_LOG_LEVEL\n")
	require.Contains(t, out.String(), "  cors_origins: [https://a.example, \"*\"]")
	back, err := config.Load(config.Sources{File: file(t, out.String())})
	require.NoError(t, err, out.String())
	require.Equal(t, l.Config, back.Config)
}

func TestDefaultsPrintAndReadBack(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Sources{})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, l.WriteYAML(&out))
	require.NotContains(t, out.String(), "#")
	back, err := config.Load(config.Sources{File: file(t, out.String())})
	require.NoError(t, err, out.String())
	require.Equal(t, config.Default().API.Limits, back.API.Limits)
	require.Len(t, back.Origins, len(l.Values()), "every key is in the file")
}

func TestPrintNeverShowsPasswords(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://me:hunter2@issuer.example/keys", "https://issuer.example/keys?token=hunter2", "https://me:hunter2@issuer.example/keys?a=hunter2"} {
		l, err := config.Load(config.Sources{Environ: []string{"DOORBUSTER_AUTH_JWT_JWKS_URL=" + url, "DOORBUSTER_AUTH_JWT_ALGORITHM=ES256"}})
		require.NoError(t, err)
		require.Equal(t, url, l.Auth.JWT.JWKSURL)
		var out bytes.Buffer
		require.NoError(t, l.WriteYAML(&out))
		require.NotContains(t, out.String(), "hunter2")
		require.Contains(t, out.String(), "issuer.example/keys")
		for _, v := range l.Values() {
			require.NotContains(t, strings.Join(v.Value, ""), "hunter2")
		}
	}
}

func TestPrintNeverShowsPasswordsOfRedis(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://me:hunter2@a,b:7/1?sentinel=m&sentinel_password=hunter2", "redis://:hunter2@[::1]:1,[::2]:2?cluster=true", "rediss://:hunter2@h"} {
		l, err := config.Load(config.Sources{Flags: []config.Flag{{Name: "--redis-url", Key: "redis.url", Value: url}}})
		require.NoError(t, err)
		require.Equal(t, url, l.Redis.URL)
		var out bytes.Buffer
		require.NoError(t, l.WriteYAML(&out))
		require.NotContains(t, out.String(), "hunter2")
		require.Contains(t, out.String(), "--redis-url")
	}
}

func TestTheDocumentNamesEveryKey(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, config.WriteMarkdown(&out))
	for _, f := range config.Fields() {
		if f.Section {
			require.Contains(t, out.String(), "\n## "+f.Key+"\n")
			continue
		}
		require.Contains(t, out.String(), "| `"+f.Key+"` | ")
	}
	require.NotContains(t, out.String(), "<data_dir>", "it would vanish from the page")
	page, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	require.Equal(t, string(page), out.String(), "run make generate")
}
