// Package obs is what the product tells about itself: the logger and every
// metric, each named and explained in metrics.go and nowhere else. Metrics are
// held as fields, so that counting costs an atomic add and never a look-up by
// label. Nothing is global: the registry is passed in.
package obs
