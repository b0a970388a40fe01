// Command doorbuster runs flash sales: it serves the API, manages sales and
// orders, and audits the promises. See `doorbuster --help`.
package main

import (
	"os"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/cli"
)

func main() {
	app.TuneGC()
	os.Exit(cli.Main(os.Args[1:], cli.Standard()))
}
