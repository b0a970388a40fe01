package httpapi

import (
	"context"
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPI []byte

func getOpenAPI(_ context.Context, x *exchange) error {
	x.reply(http.StatusOK, "application/yaml", openAPI)
	return nil
}
