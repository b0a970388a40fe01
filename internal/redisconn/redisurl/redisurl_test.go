package redisurl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn/redisurl"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const single, sentinel, cluster = redisurl.Single, redisurl.Sentinel, redisurl.Cluster
	for text, want := range map[string]redisurl.URL{
		"redis://h":                           {Kind: single, Hosts: []string{"h:6379"}},
		"redis://h/":                          {Kind: single, Hosts: []string{"h:6379"}},
		"rediss://h:1/7":                      {Kind: single, TLS: true, Hosts: []string{"h:1"}, DB: 7},
		"redis://[::1]":                       {Kind: single, Hosts: []string{"[::1]:6379"}},
		"redis://:p@[fd00::7]:8":              {Kind: single, Hosts: []string{"[fd00::7]:8"}, Password: "p"},
		"redis://a%40b:p%2Fq%3F:@127.0.0.1":   {Kind: single, Hosts: []string{"127.0.0.1:6379"}, User: "a@b", Password: "p/q?:"},
		"redis://u:a@b@h":                     {Kind: single, Hosts: []string{"h:6379"}, User: "u", Password: "a@b"},
		"redis://a,b:7,c?cluster=true":        {Kind: cluster, Hosts: []string{"a:6379", "b:7", "c:6379"}},
		"rediss://a/0?cluster=true":           {Kind: cluster, TLS: true, Hosts: []string{"a:6379"}},
		"redis://:p@a,b:7/2?sentinel=my%26db": {Kind: sentinel, Hosts: []string{"a:26379", "b:7"}, Password: "p", DB: 2, Primary: "my&db"},
		"redis://a?sentinel=m&sentinel_password=s&sentinel_user=v": {
			Kind: sentinel, Hosts: []string{"a:26379"}, Primary: "m", SentinelUser: "v", SentinelPassword: "s",
		},
	} {
		got, err := redisurl.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestMistakesAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	//nolint:gosec // these are nobody's accounts
	for text, want := range map[string]string{
		"":                                    "does not start with redis://",
		"h:6379":                              "does not start with redis://",
		"http://h":                            "does not start with redis://",
		"redis:h":                             "does not start with redis://",
		"redis://":                            "host number 1 is neither",
		"redis://:secret@":                    "host number 1 is neither",
		"redis://h:port":                      "host number 1 is neither",
		"redis://h:0":                         "is neither host nor",
		"redis://h:65536":                     "is neither host nor",
		"redis://::1":                         "is neither host nor",
		"redis://h,":                          "is neither host nor",
		"redis://a:7,a:7?cluster=true":        "is said twice",
		"redis://a,b":                         "several hosts",
		"redis://u:%zz-secret@h":              "user and password cannot be read",
		"redis://u@h":                         "the user has no password",
		"redis://:a/secret@h":                 "an @ stands behind the host",
		"redis://:a?secret@h":                 "an @ stands behind the host",
		"redis://u:secret":                    "host number 1 is neither",
		"redis://h/x":                         "not the number of a database",
		"redis://h/-1":                        "not the number of a database",
		"redis://h/10000":                     "not the number of a database",
		"redis://h/1?cluster=true":            "has no database but 0",
		"redis://h?cluster=yes":               "cluster is neither true",
		"redis://h?cluster=true&sentinel=m":   "both sentinel and cluster",
		"redis://h?sentinel=":                 `"sentinel" is empty`,
		"redis://h?sentinel=a&sentinel=b":     `"sentinel" is empty or said twice`,
		"redis://h?sentinel_password=secret":  "no sentinel=NAME",
		"redis://h?pool=9":                    `"pool" is unknown`,
		"redis://h?%zz":                       "cannot be read",
		"redis://:secret#secret@h":            "has a fragment",
		"redis://:secret@h:x?sentinel=secret": "host number 1 is neither",
	} {
		_, err := redisurl.Parse(text)
		require.ErrorContains(t, err, want, text)
		told, ok := errors.AsType[*redisurl.Error](err)
		require.True(t, ok)
		require.NotEmpty(t, told.Hint)
		require.NotContains(t, told.Message+told.Hint, "secret", text)
	}
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	//nolint:gosec // these are nobody's accounts
	for text, want := range map[string]string{
		"redis://h":                      "redis://h:6379",
		"redis://:hidden@h/3":            "redis://:********@h:6379/3",
		"rediss://me:hidden@h":           "rediss://me:********@h:6379",
		"redis://:hidden@a?sentinel=m":   "redis://:********@a:26379?sentinel=m",
		"redis://a,b?cluster=true":       "redis://a:6379,b:6379?cluster=true",
		"redis://[::1]:7?cluster=true":   "redis://[::1]:7?cluster=true",
		"redis://a?sentinel=a%26b%3D%3F": "redis://a:26379?sentinel=a%26b%3D%3F",
		"redis://a?sentinel=m&sentinel_user=u&sentinel_password=hidden": "redis://a:26379?sentinel=m&sentinel_user=u&sentinel_password=********",
	} {
		u, err := redisurl.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, u.String())
		for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
			require.NotContains(t, fmt.Sprintf(verb, u), "hidden", verb)
			require.NotContains(t, fmt.Sprintf(verb, &u), "hidden", verb)
		}
		raw, err := json.Marshal(u) //nolint:gosec // that is the question
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hidden")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"redis://:p@a,b:7/2?sentinel=m", "rediss://u:p%40@[::1]:1", "redis://a?cluster=true", "redis://@", "redis://h/%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := redisurl.Parse(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, u.Hosts)
		if u.Password == "" && u.SentinelPassword == "" {
			again, err := redisurl.Parse(u.String())
			require.NoError(t, err, u.String())
			require.Equal(t, u, again)
		} else if len(u.Password) > 8 && !strings.Contains(masked(u), string(u.Password)) {
			require.NotContains(t, u.String(), string(u.Password))
		}
	})
}

// masked is the URL as it would be with another password.
func masked(u redisurl.URL) string {
	u.Password, u.SentinelPassword = "-", "-"
	return u.String()
}
