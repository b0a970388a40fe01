package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/doorbuster/doorbuster/client"
)

// jsonFlag is embedded by every command that prints a result.
type jsonFlag struct {
	JSON bool `help:"Print one JSON document instead of text."`
}

// writeJSON prints a document.
func writeJSON[T any](w io.Writer, v T) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows with aligned columns; the first row is the heading.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = plain(row[i])
		}
		if _, err := fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// listing walks the pages of a listing and returns up to limit entries, all for 0. It
// says where there may be more.
func listing[T any](
	ctx context.Context, s *session, r *remote, limit int,
	fetch func(ctx context.Context, api *client.Client, after string, limit int) (client.Page[T], error),
) ([]T, error) {
	if limit < 0 {
		return nil, &usageError{message: "--limit: the number is negative", hint: "0 lists all"}
	}
	page := 500 // the most that the API gives at once
	if limit > 0 {
		page = min(page, limit)
	}
	all := []T{}
	err := r.call(ctx, s, func(ctx context.Context, api *client.Client) error {
		for one, err := range client.All(func(after string) (client.Page[T], error) { return fetch(ctx, api, after, page) }) {
			if err != nil {
				return err
			}
			all = append(all, one)
			if len(all) == limit {
				break
			}
		}
		return nil
	})
	if err == nil && limit > 0 && len(all) == limit {
		err = say(s.Err, "listed are %d, as many as --limit allows; --limit 0 lists all", limit)
	}
	return all, err
}

// say prints one line.
func say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format+"\n", args...)
	return err
}

// plain keeps what comes from outside from moving a terminal's cursor or
// breaking a table.
func plain(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}

// instant prints a time in UTC, to the second where that is exact.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.UTC()
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02 15:04:05Z")
	}
	return t.Format("2006-01-02 15:04:05.000Z")
}

func instantOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return instant(*t)
}

// money prints an amount of minor units in major ones, as ISO 4217 divides them.
func money(amount int64, currency string) string {
	digits := minorDigits(currency)
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	text := strconv.FormatInt(amount, 10)
	if digits > 0 {
		if len(text) <= digits {
			text = strings.Repeat("0", digits-len(text)+1) + text
		}
		text = text[:len(text)-digits] + "." + text[len(text)-digits:]
	}
	return sign + text + " " + currency
}

// minorDigits returns how many decimals a currency has: two but for these.
func minorDigits(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func seconds(n int64) string { return (time.Duration(n) * time.Second).String() }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
