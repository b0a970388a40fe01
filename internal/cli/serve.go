package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/app"
)

// serveCmd serves the API.
type serveCmd struct {
	settings
	listeners
}

// Help returns the long help.
func (c *serveCmd) Help() string {
	return "Serves until SIGINT or SIGTERM; then new requests are refused and those accepted are answered. " +
		"The addresses in use are written to api.addr and ops.addr in the data folder. " +
		"On a loopback address the first start writes development keys into the data folder: admin.key is an API key with every scope; " +
		"jwt.key, made only if no key of an issuer is configured (auth.jwt), signs tokens of buyers (doorbuster buyer token). " +
		"On any other address both are refused: configure auth.jwt, and make API keys with doorbuster key create."
}

// Run serves.
func (c *serveCmd) Run(ctx context.Context, s *session) error {
	cfg, err := c.load(s, c.flags()...)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg.Config, app.Output{Log: s.Err, Notes: s.Err, Version: currentVersion()})
}
