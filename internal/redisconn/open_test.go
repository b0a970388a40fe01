package redisconn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// coded returns the code of an error of Open, which has a hint and shows no
// password.
func coded(t *testing.T, err error) sale.Code {
	t.Helper()
	e, ok := errors.AsType[*sale.Error](err)
	require.True(t, ok, "%v", err)
	require.NotEmpty(t, e.Hint)
	require.NotContains(t, err.Error()+e.Message+e.Hint, "hunter2")
	return e.Code
}

func TestOpenOneServer(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL + "/3", ClientName: "door-7"})
	require.NoError(t, call(t, client, "SET", "k", "v"))
	require.Contains(t, s.Must("CLIENT", "LIST"), "name=door-7 ")
	require.Contains(t, s.Must("CLIENT", "LIST"), " db=3 ")
	require.Empty(t, s.Must("GET", "k"), "this looks into database 0")
}

func TestOpenWithAccounts(t *testing.T) {
	t.Parallel()
	s := plain(t, "requirepass hunter2/x", "user door on >hunter2:y ~* +@all")
	for _, account := range []string{":hunter2%2Fx", "door:hunter2%3Ay"} {
		client := open(t, redisconn.Options{URL: "redis://" + account + "@" + s.Addr})
		require.NoError(t, call(t, client, "SET", "k", "v"))
	}
	for _, account := range []string{"", ":hunter2@", "door:hunter2@", "nobody:hunter2@"} {
		_, err := redisconn.Open(t.Context(), redisconn.Options{URL: "redis://" + account + s.Addr, CallTimeout: patience})
		require.Equal(t, sale.CodeUnavailable, coded(t, err))
		require.ErrorContains(t, err, "refuses the account", account)
		require.Equal(t, redisconn.Denied, redisconn.ReasonOf(err))
	}
}

func TestOpenRefusesMistakes(t *testing.T) {
	t.Parallel()
	s := plain(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, o := range map[string]redisconn.Options{
		"URL":        {URL: "redis://:hunter2@a,b"},
		"no cluster": {URL: s.URL + "?cluster=true"},
		"CA":         {URL: s.URL, CAFile: empty},
		"CA missing": {URL: "rediss://" + s.Addr, CAFile: empty + ".not"},
		"CA empty":   {URL: "rediss://" + s.Addr, CAFile: empty},
	} {
		o.CallTimeout = patience
		_, err := redisconn.Open(t.Context(), o)
		require.Equal(t, sale.CodeInvalid, coded(t, err), name)
	}
}

func TestOpenOutOfReach(t *testing.T) {
	t.Parallel()
	s := plain(t)
	s.Kill()
	for _, url := range []string{"redis://:hunter2@" + s.Addr, s.URL + "?sentinel=m&sentinel_password=hunter2", s.URL + "?cluster=true"} {
		_, err := redisconn.Open(t.Context(), redisconn.Options{URL: url})
		require.Equal(t, sale.CodeUnavailable, coded(t, err), url)
		require.ErrorIs(t, err, redisconn.ErrUnavailable)
		require.ErrorIs(t, err, redisconn.ErrNotExecuted)
		require.Equal(t, redisconn.Unreachable, redisconn.ReasonOf(err))
	}
}

func TestOpenGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, plain(t).Addr)
	held := p.Hold(testenv.Replies)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held
		cancel()
	}()
	_, err := redisconn.Open(ctx, redisconn.Options{URL: "redis://" + p.Addr, CallTimeout: time.Minute})
	require.Equal(t, sale.CodeUnavailable, coded(t, err))
	require.ErrorIs(t, err, context.Canceled)
	p.Pass()
	require.Eventually(t, func() bool { return p.Links() == 0 }, patience, 5*time.Millisecond, "what came of it later is closed")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir)
	plainPort := testenv.Redis(t, "appendonly no")
	plainPort.Stop() // only to learn of a free port
	_, port, err := net.SplitHostPort(plainPort.Addr)
	require.NoError(t, err)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	testenv.Redis(t, "appendonly no", "tls-port "+port, "tls-auth-clients no",
		"tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+cert)
	url := strings.Replace(plainPort.URL, "redis://", "rediss://", 1)
	client := open(t, redisconn.Options{URL: url, CAFile: cert})
	require.NoError(t, call(t, client, "SET", "k", "v"))

	_, err = redisconn.Open(t.Context(), redisconn.Options{URL: url, CallTimeout: patience})
	require.Equal(t, sale.CodeUnavailable, coded(t, err), "nobody vouches for it")
	require.ErrorIs(t, err, redisconn.ErrNotExecuted)
	require.ErrorContains(t, err, "certificate")
	require.Equal(t, redisconn.Unreachable, redisconn.ReasonOf(err))
	_, err = redisconn.Open(t.Context(), redisconn.Options{URL: plainPort.URL})
	require.Equal(t, sale.CodeUnavailable, coded(t, err), "the other side speaks TLS")
}

// certify writes a certificate for loopback that vouches for itself.
func certify(t *testing.T, dir string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

func TestSentinelsLeadToTheNewPrimary(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t, "appendonly no")
	client := open(t, redisconn.Options{URL: g.URL()})
	require.NoError(t, call(t, client, "SET", "k", "v"))
	first, second := g.Primary(), g.Replica()
	require.Equal(t, "1", first.Must("WAIT", "1", "10000"))
	first.Kill()
	require.ErrorIs(t, call(t, client, "SET", "k", "w"), redisconn.ErrUnavailable)
	eventually(t, client, "SET", "k", "x")
	require.Equal(t, "x", second.Must("GET", "k"))

	report, err := redisconn.Check(t.Context(), client, nil)
	require.NoError(t, err)
	require.Len(t, report.Servers, 1)
	require.Equal(t, second.Addr, report.Servers[0].Addr)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no", "cluster-require-full-coverage no", "cluster-allow-reads-when-down yes")
	client := open(t, redisconn.Options{URL: "redis://" + c.Nodes[0].Addr + "?cluster=true"})
	byNode := make(map[*testenv.RedisServer]string)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		require.NoError(t, call(t, client, "SET", key, "v"))
		require.Equal(t, "v", c.Owner(key).Must("GET", key))
		byNode[c.Owner(key)] = key
	}
	require.Len(t, byNode, 3)

	single := open(t, redisconn.Options{URL: c.Nodes[0].URL})
	err := call(t, single, "SET", byNode[c.Nodes[1]], "v")
	require.ErrorIs(t, err, redisconn.ErrNotExecuted)
	require.Equal(t, redisconn.Moving, redisconn.ReasonOf(err))
	_, err = redisconn.Check(t.Context(), single, nil)
	require.ErrorIs(t, err, redisconn.ErrUnfit)
	require.ErrorContains(t, err, "is a node of a cluster")

	c.AddReplicas()
	client = open(t, redisconn.Options{URL: c.URL()})
	report, err := redisconn.Check(t.Context(), client, redisconn.ServerClock(single))
	require.NoError(t, err)
	require.Len(t, report.Servers, 3, "replicas are left out")
	require.Len(t, report.Findings, 6, "each keeps nothing, and may lose its last writes in a fail-over")
	require.Len(t, report.Warnings(), 3)

	for _, r := range c.Replicas {
		r.Kill()
	}
	c.Nodes[1].Kill()
	err = call(t, client, "SET", byNode[c.Nodes[1]], "v")
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
	require.NoError(t, call(t, client, "SET", byNode[c.Nodes[0]], "v"), "the others go on")
	c.Nodes[1].Start()
	eventually(t, client, "SET", byNode[c.Nodes[1]], "w")
}
