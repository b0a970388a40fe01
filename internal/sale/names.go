package sale

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Bounds of names and numbers that come from outside.
const (
	MaxUserLen    = 128
	MaxKeyLen     = 128
	MaxSlugLen    = 64
	MaxSKULen     = 64
	MaxTitleLen   = 200
	MaxPaymentLen = 128
	MaxItems      = 100

	// MaxInteger is 2^53−1, the largest integer that every JSON reader keeps
	// exactly. No stock, price or amount may exceed it.
	MaxInteger = 1<<53 - 1
	// MaxPerUserLimit bounds the quantity of one order.
	MaxPerUserLimit = 1_000_000
)

// CheckUser refuses a user id that is empty, longer than 128 bytes, not UTF-8,
// or holds control characters. Nothing is folded or trimmed: ids that differ in
// a single byte are different users.
func CheckUser(user string) error {
	switch {
	case user == "":
		return Invalid("user", "the user id is empty", "put the user's id into the token's sub claim, or into on_behalf_of")
	case len(user) > MaxUserLen:
		return Invalid("user", "the user id is longer than 128 bytes", "use a shorter opaque id")
	case !printable(user):
		return Invalid("user", "the user id holds control characters or is not UTF-8", "use an opaque printable id")
	}
	return nil
}

// CheckIdempotencyKey refuses a key that is not 1–128 visible ASCII characters.
func CheckIdempotencyKey(key string) error {
	if len(key) == 0 || len(key) > MaxKeyLen {
		return Invalid("Idempotency-Key", "an idempotency key has 1 to 128 characters", "send one random value per click, for example a UUID")
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return Invalid("Idempotency-Key", "an idempotency key is visible ASCII without spaces", "send one random value per click, for example a UUID")
		}
	}
	return nil
}

// CheckPaymentID refuses a payment id that is not 1–128 visible ASCII characters.
func CheckPaymentID(id string) error {
	if len(id) == 0 || len(id) > MaxPaymentLen {
		return Invalid("payment_id", "a payment id has 1 to 128 characters", "send the provider's own id of the charge")
	}
	for i := range len(id) {
		if id[i] < '!' || id[i] > '~' {
			return Invalid("payment_id", "a payment id is visible ASCII without spaces", "send the provider's own id of the charge")
		}
	}
	return nil
}

// CheckSlug refuses anything but 1–64 of a–z, 0–9 and inner hyphens.
func CheckSlug(slug string) error {
	if len(slug) == 0 || len(slug) > MaxSlugLen || slug[0] == '-' || slug[len(slug)-1] == '-' {
		return Invalid("sale", "a sale's id has 1 to 64 characters and neither starts nor ends with a hyphen", "for example: summer-drop-1")
	}
	for i := range len(slug) {
		c := slug[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return Invalid("sale", "a sale's id is made of a-z, 0-9 and hyphens", "for example: summer-drop-1")
		}
	}
	return nil
}

// CheckSKU refuses anything but 1–64 visible ASCII characters without spaces.
// SKUs are compared byte for byte: Sku-1 and sku-1 are two items.
func CheckSKU(sku string) error {
	if len(sku) == 0 || len(sku) > MaxSKULen {
		return Invalid("item", "an item's SKU has 1 to 64 characters", "for example: shoe-42")
	}
	for i := range len(sku) {
		if sku[i] < '!' || sku[i] > '~' {
			return Invalid("item", "an item's SKU is visible ASCII without spaces", "for example: shoe-42")
		}
	}
	return nil
}

// CheckCurrency refuses anything but three upper-case letters (ISO 4217).
func CheckCurrency(code string) error {
	if len(code) != 3 {
		return Invalid("currency", "a currency has three letters", "use an ISO 4217 code such as EUR or CNY")
	}
	for i := range len(code) {
		if code[i] < 'A' || code[i] > 'Z' {
			return Invalid("currency", "a currency is written in upper-case letters", "use an ISO 4217 code such as EUR or CNY")
		}
	}
	return nil
}

func checkTitle(field, title string) error {
	if len(title) > MaxTitleLen {
		return Invalid(field, "a title has at most 200 bytes", "shorten it")
	}
	if !printable(title) {
		return Invalid(field, "a title holds control characters or is not UTF-8", "use plain text")
	}
	return nil
}

// CheckLine refuses a text that is longer than so many characters, not UTF-8, or
// holds control characters. Empty is fine.
func CheckLine(field, text string, most int) error {
	if !printable(text) {
		return Invalid(field, "the text holds control characters or is not UTF-8", "use one line of plain text")
	}
	if utf8.RuneCountInString(text) > most {
		return Invalid(field, fmt.Sprintf("the text has more than %d characters", most), "shorten it")
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}
