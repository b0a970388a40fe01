package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/config"
)

// composeFile is what the test looks at in deploy/compose.yaml.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Environment map[string]string `yaml:"environment"`
		Command     []string          `yaml:"command"`
		Volumes     []string          `yaml:"volumes"`
		Secrets     []string          `yaml:"secrets"`
	} `yaml:"services"`
	Secrets map[string]any `yaml:"secrets"`
	Volumes map[string]any `yaml:"volumes"`
}

// The deployment that is described configures what there is to configure, and
// gives the fast path what it asks of Redis.
func TestTheDescribedDeploymentIsOne(t *testing.T) {
	t.Parallel()
	deploy := filepath.Join("..", "..", "deploy")
	raw, err := os.ReadFile(filepath.Join(deploy, "compose.yaml"))
	require.NoError(t, err)
	var file composeFile
	require.NoError(t, yaml.Unmarshal(raw, &file))

	var shops []string
	var instances int
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if inside, found := strings.CutPrefix(source, "./"); found {
				require.FileExists(t, filepath.Join(deploy, inside))
				continue
			}
			require.Contains(t, file.Volumes, source, name)
		}
		for _, secret := range s.Secrets {
			require.Contains(t, file.Secrets, secret)
		}
		if s.Image != "doorbuster" {
			continue
		}
		shops = append(shops, name)
		var environ []string
		for key, value := range s.Environment {
			environ = append(environ, key+"="+regexp.MustCompile(`\$\{[A-Z_]+:\?[^}]*\}`).ReplaceAllString(value, "secret"))
		}
		l, wrong := config.Load(config.Sources{Environ: environ})
		require.NoError(t, wrong, name)
		require.True(t, l.Has(config.RoleGate) && l.Has(config.RoleWorker))
		require.Equal(t, "fast", l.Fast.DefaultPath)
		require.Contains(t, l.Ledger.URL, "@postgres:5432/")
		require.Equal(t, "redis://redis:6379", l.Redis.URL)
		require.Equal(t, "0.0.0.0:9090", l.Ops.Listen, "others than itself watch it")
		instances = l.Gate.Instances
	}
	slices.Sort(shops)
	require.Equal(t, []string{"shop-1", "shop-2"}, shops)
	require.Len(t, shops, instances)

	apart, err := os.ReadFile(filepath.Join(deploy, "..", ".dockerignore"))
	require.NoError(t, err)
	for _, secret := range []string{".git", "data", "deploy/.env", "deploy/secrets"} {
		require.Contains(t, strings.Split(string(apart), "\n"), secret, "it stays out of images")
	}

	redis := strings.Join(file.Services["redis"].Command, " ")
	require.Contains(t, redis, "--maxmemory-policy noeviction")
	require.Contains(t, redis, "--appendonly yes")

	front, err := os.ReadFile(filepath.Join(deploy, "nginx.conf"))
	require.NoError(t, err)
	for _, shop := range shops {
		require.Contains(t, string(front), "server "+shop+":8080")
	}
}
