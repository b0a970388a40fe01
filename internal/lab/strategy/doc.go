// Package strategy holds the ways to sell a hundred units that people have tried, each
// in a file of its own with the reason for which it fails or holds, behind one small HTTP
// server that a crowd of package traffic can buy from as it buys from Doorbuster.
package strategy
