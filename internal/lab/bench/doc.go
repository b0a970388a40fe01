// Package bench is the `doorbuster bench` command: it sends an open-loop crowd at a
// URL, watches the server and what stands behind it side by side in time, asks for an
// audit, and says whether the promises were kept.
package bench
