package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
)

func adminGetGate(ctx context.Context, x *exchange) error {
	keeper, err := x.withGate()
	if err != nil {
		return err
	}
	entered, err := x.api.ledger.GateSettings(ctx)
	if err != nil {
		return err
	}
	x.showGate(keeper, &entered)
	return nil
}

// adminPutGate replaces the settings as a whole: what is left out takes its default.
func adminPutGate(ctx context.Context, x *exchange) error {
	version, err := gateMatch(x.r.Header)
	if err != nil {
		return err
	}
	keeper, err := x.withGate()
	if err != nil {
		return err
	}
	if err = x.wantJSON(); err != nil {
		return err
	}
	var strict gate.Settings // refuses what is given twice, and names in other case
	if err = unmarshal(x.body, &strict); err != nil {
		return err
	}
	if _, err = gate.ParseSettings(x.body); err != nil {
		return err
	}
	entered, err := x.api.ledger.PutGateSettings(ctx, version, x.body, x.who.KeyID)
	if err != nil {
		return err
	}
	keeper.Nudge()
	x.api.log.LogAttrs(ctx, slog.LevelInfo, "an operator changed the gate's settings",
		slog.Int64("version", entered.Version), slog.String("key", x.who.KeyID), slog.String("request", x.id))
	x.showGate(keeper, &entered)
	return nil
}

// gateMatch returns the version of the settings that a request insists on: 0 for any.
func gateMatch(h http.Header) (int64, error) {
	if values := h["If-Match"]; len(values) == 1 && values[0] == `"0"` {
		return ledger.NoSettings, nil
	}
	return mustMatch(h)
}

// showGate answers with the settings that operators have entered, or else with those
// that are in force without.
func (x *exchange) showGate(keeper *gate.Keeper, entered *ledger.Settings) {
	inForce, taken := keeper.Settings()
	w := client.GateSettings{
		Version: entered.Version, From: string(keeper.Origin(entered.Version)), InForce: taken.Version == entered.Version,
		Author: entered.Author, At: instantPtr(entered.At), Settings: document(&inForce),
	}
	if !w.InForce {
		// A moment ago: shown as it will be, unless this version cannot read it.
		if next, err := gate.ParseSettings(entered.Text); err == nil {
			w.Settings = document(&next)
		}
	}
	x.w.Header()["Etag"] = []string{`"` + strconv.FormatInt(w.Version, 10) + `"`}
	x.reply(http.StatusOK, typeJSON, render(w))
}

// document writes settings as a file of them has them, without what is left at zero.
func document(s *gate.Settings) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // becomes a 503 with a log line
	}
	return text
}

// adminRotateGateKey lets the gate sign with a new key. What the one before has signed
// is accepted for as long as it lives.
func adminRotateGateKey(ctx context.Context, x *exchange) error {
	if err := x.wantNothing(); err != nil {
		return err
	}
	key, err := x.api.ledger.RotateGateKey(ctx, gate.DeviceLife+gate.KeySettle)
	if err != nil {
		return err
	}
	x.nudgeGate()
	x.api.log.LogAttrs(ctx, slog.LevelInfo, "an operator rotated the gate's key",
		slog.Uint64("gate_key", uint64(key.ID)), slog.String("key", x.who.KeyID), slog.String("request", x.id))
	x.reply(http.StatusOK, typeJSON, render(client.GateKey{ID: key.ID, CreatedAt: key.CreatedAt}))
	return nil
}
