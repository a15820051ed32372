package main

import (
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

// waits returns pairs of names and values, one for each wait.
func waits(list []admin.Wait) []string {
	var pairs []string
	for i := range list {
		pairs = append(pairs, "waits for", plain.Wait(&list[i]))
	}
	return pairs
}
