// Package httpapi is the front hall.
package httpapi
