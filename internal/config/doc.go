// Package config is everything that an operator can set: one struct whose tags
// are the only place where a key's name, default and meaning are written. The
// loader, `config print`, `config doc` and docs/config.md are made from them.
//
// # Sources
//
// Defaults, then a YAML file, then environment variables, then flags; a later
// source replaces what an earlier one said about a key. Every source says a key
// in the same words: api.listen in the file is
//
//	api:
//	  listen: 127.0.0.1:8080
//
// DOORBUSTER_API_LISTEN in the environment and --set api.listen=127.0.0.1:8080
// on the command line. All go through one parser, so a value means the same
// wherever it comes from, and no source can say what another cannot.
//
// # Mistakes
//
// An unknown key, in any source, is a mistake and not a remark. Load and
// Validate report every mistake at once, each with the key, where it was said,
// and what to do.
//
// # Secrets
//
// No value is a secret: keys and tokens are named by the path of their file. A
// password inside a URL is masked wherever the configuration is printed.
package config
