package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn/redisurl"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// DefaultCallTimeout is the longest time of a call where Options say nothing.
const DefaultCallTimeout = time.Second

const (
	// bufferSize is that of each direction of each connection. The client's own
	// choice of half a mebibyte is for few connections to one server.
	bufferSize = 64 << 10
	// blockingConns bounds the connections of calls that wait in the server, one
	// for each reader of a tray, and one for each long pipeline and each scan.
	blockingConns = 512
	// multiplex makes two connections of those that all other calls to a server
	// share, whatever cores this machine has: which is how the client would choose.
	multiplex = 1
	// topologyEvery is how often sentinels and cluster are asked who is who,
	// beyond what they tell by themselves: a message may be missed.
	topologyEvery = 5 * time.Second
	// maxRedirections ends the way of a call that nodes send to and fro.
	maxRedirections = 8
	// silence is after how long a connection without an answer is probed, and
	// the shortest time that it then has.
	silence = time.Second
)

// Options say how to connect.
type Options struct {
	// URL is a redis.url; see package redisurl for its forms.
	URL string
	// CAFile is a PEM file with the certificates that vouch for the servers of a
	// rediss:// URL. Empty takes those of the system.
	CAFile string
	// CallTimeout bounds connecting, and how long a silent connection is kept
	// once it was probed, which is never less than a second. Zero is
	// DefaultCallTimeout. Calls have the deadlines of their contexts.
	CallTimeout time.Duration
	// ClientName is what CLIENT LIST shows. Empty is "doorbuster".
	ClientName string
}

// Open connects and waits until the first server, or one sentinel and its
// primary, or one node and the others it names, have answered. The client is
// closed by the caller. Errors are *sale.Error: CodeInvalid for mistakes in the
// options or a server that is not what the URL says, CodeUnavailable where
// trying again may help. None shows a password.
func Open(ctx context.Context, o Options) (rueidis.Client, error) {
	u, err := redisurl.Parse(o.URL)
	if wrong, ok := errors.AsType[*redisurl.Error](err); ok {
		return nil, sale.Invalid("redis.url", wrong.Message, wrong.Hint)
	}
	option, err := o.client(u)
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, option)
	if err != nil {
		return nil, refused(u, Trouble("connect", err))
	}
	if u.Kind == redisurl.Cluster && client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, sale.Invalid("redis.url", "there is no Redis Cluster at "+u.String(), "leave cluster=true out for a single server")
	}
	return client, nil
}

// connect gives up waiting when ctx ends; what comes of the attempt later is
// closed. The attempt itself is bounded by the timeouts of its few connections.
func connect(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type outcome struct {
		client rueidis.Client
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		done <- outcome{client, err}
	}()
	select {
	case o := <-done:
		return o.client, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// refused says what an operator can do about a connection that failed.
func refused(u redisurl.URL, err error) *sale.Error {
	out := &sale.Error{
		Code: sale.CodeUnavailable, Message: "Redis cannot be reached at " + u.String(),
		Hint: "check redis.url, that the server runs, and that this machine may connect to it", Retry: true, Err: err,
	}
	if trouble, ok := errors.AsType[*Error](err); ok && trouble.Reason == Denied {
		out.Message = "Redis refuses the account of " + u.String()
		out.Hint = "check user and password in redis.url; reserved characters are percent-encoded"
		out.Retry = false
	}
	return out
}

func (o *Options) client(u redisurl.URL) (rueidis.ClientOption, error) {
	certificates, err := o.tls(u)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	timeout := o.CallTimeout
	if timeout <= 0 {
		timeout = DefaultCallTimeout
	}
	name := o.ClientName
	if name == "" {
		name = "doorbuster"
	}
	dialer := net.Dialer{Timeout: timeout, KeepAlive: silence}
	option := rueidis.ClientOption{
		InitAddress: u.Hosts, TLSConfig: certificates, Dialer: dialer, DialCtxFn: dial,
		Username: u.User, Password: string(u.Password), SelectDB: u.DB, ClientName: name,
		ClientSetInfo:      rueidis.DisableClientSetInfo, // Redis 7.0 does not know it
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		BlockingPoolSize: blockingConns, ConnWriteTimeout: max(timeout, silence),
		// See the package comment: a call is sent once. This concerns reads only;
		// writes are never repeated.
		DisableRetry: true,
		DisableCache: true,
		// Otherwise a lone call owns its connection, and closes it under all that
		// came after when its time is up.
		AlwaysPipelining:  true,
		ForceSingleClient: u.Kind == redisurl.Single,
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: topologyEvery, MaxMovedRedirections: maxRedirections},
	}
	if u.Kind != redisurl.Cluster {
		option.PipelineMultiplex = multiplex
	}
	if u.Kind == redisurl.Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: u.Primary, Username: u.SentinelUser, Password: string(u.SentinelPassword), ClientName: name,
			Dialer: dialer, TLSConfig: certificates, TopologyRefreshInterval: topologyEvery,
		}
	}
	return option, nil
}

// tls returns nil for a URL without TLS.
func (o *Options) tls(u redisurl.URL) (*tls.Config, error) {
	if !u.TLS {
		if o.CAFile != "" {
			return nil, sale.Invalid("redis.ca_file", "redis.url does not use TLS", "write rediss:// in redis.url, or leave redis.ca_file out")
		}
		return nil, nil //nolint:nilnil // no TLS is no configuration of it
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile == "" {
		return config, nil
	}
	const hint = "name a readable PEM file with the certificate of your authority"
	raw, err := os.ReadFile(o.CAFile)
	if err != nil {
		out := sale.Invalid("redis.ca_file", "the certificates cannot be read", hint)
		out.Err = err
		return nil, out
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(raw) {
		return nil, sale.Invalid("redis.ca_file", "there is no certificate in "+o.CAFile, hint)
	}
	return config, nil
}

// dialError marks a connection that was never made: what was to be sent over it
// has not left this process.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	} else {
		secure := tls.Dialer{NetDialer: dialer, Config: config}
		conn, err = secure.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}
