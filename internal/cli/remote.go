package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/config"
)

// remote are the flags of commands that call a server.
type remote struct {
	URL     string        `placeholder:"URL" help:"The server's address (DOORBUSTER_URL). Without it, the server that runs on the data folder, or http://127.0.0.1:8080."`
	KeyFile string        `placeholder:"FILE" help:"File with the API key (or the key itself in DOORBUSTER_API_KEY). Without it, admin.key of the data folder."`
	Timeout time.Duration `default:"30s" help:"Longest time for all tries of a call."`
	settings
}

// apiAddrFile is where a server writes the address that it listens on.
const apiAddrFile = "api.addr"

const defaultURL = "http://127.0.0.1:8080"

// call runs work with a client and the bound on its time.
func (r *remote) call(ctx context.Context, s *session, work func(context.Context, *client.Client) error) error {
	if r.Timeout <= 0 {
		return &usageError{message: "--timeout: the time is not positive", hint: "write it like 30s"}
	}
	c, err := r.client(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return work(ctx, c)
}

func (r *remote) client(s *session) (*client.Client, error) {
	dir, err := r.dataDir(s)
	if err != nil {
		return nil, err
	}
	address, err := r.address(s, dir)
	if err != nil {
		return nil, err
	}
	key, err := r.key(s, dir, address)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{URL: address, Token: key, UserAgent: "doorbuster-cli/" + currentVersion()})
}

// dataDir returns the folder to look into, empty if flags and environment say
// everything: then the configuration of a server elsewhere is of no concern.
func (r *remote) dataDir(s *session) (string, error) {
	if (r.URL != "" || s.env("DOORBUSTER_URL") != "") && (r.KeyFile != "" || s.env("DOORBUSTER_API_KEY") != "") {
		return "", nil
	}
	cfg, err := r.load(s)
	return cfg.DataDir, err
}

func (r *remote) address(s *session, dir string) (string, error) {
	if r.URL != "" {
		return r.URL, nil
	}
	if set := s.env("DOORBUSTER_URL"); set != "" {
		return set, nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, apiAddrFile)) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrNotExist) {
		return defaultURL, nil
	}
	return "http://" + reachable(strings.TrimSpace(string(raw))), err
}

// reachable turns the address of a server that listens everywhere into the one
// under which this machine calls it.
func reachable(listen string) string {
	addr, err := netip.ParseAddrPort(listen)
	switch {
	case err != nil || !addr.Addr().IsUnspecified():
		return listen
	case addr.Addr().Is4():
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(addr.Port())))
	}
	return net.JoinHostPort("localhost", strconv.Itoa(int(addr.Port())))
}

func (r *remote) key(s *session, dir, address string) (string, error) {
	file := r.KeyFile
	if file == "" {
		if key := s.env("DOORBUSTER_API_KEY"); key != "" {
			return strings.TrimSpace(key), nil
		}
		if !local(address) {
			// The key of this machine's server is nobody else's business.
			return "", &usageError{message: "there is no API key for " + plain(address), hint: "name it with --key-file or DOORBUSTER_API_KEY"}
		}
		file = filepath.Join(dir, app.AdminKeyFile)
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.KeyFile == "":
		return "", &usageError{
			message: "there is no API key: " + file + " does not exist",
			hint:    "name a key with --key-file or DOORBUSTER_API_KEY, or the data folder of the server with --data-dir",
		}
	case errors.Is(err, fs.ErrNotExist):
		return "", &usageError{message: "--key-file: " + file + " does not exist", hint: "doorbuster key create makes a key"}
	}
	return strings.TrimSpace(string(raw)), err
}

// local reports whether a URL leads to this machine.
func local(text string) bool {
	u, err := url.Parse(text)
	return err == nil && config.Loopback(net.JoinHostPort(u.Hostname(), "0"))
}
