// Package limits compares the limits of this project with those of others, on one
// Redis and in one run. It is in a module of its own, so that the libraries it
// compares with are no dependency of the product.
package limits
