package main

import "github.com/effectively-once/once/internal/admin/plain"

// safe is [plain.Safe].
func safe(value string) string { return plain.Safe(value) }

// safeLines is [plain.SafeLines].
func safeLines(value string) string { return plain.SafeLines(value) }

// maxCell limits one cell of a table, in characters.
const maxCell = 200

// cell is text for one cell of a table: safe, and cut.
func cell(value string) string {
	runes := 0
	for i := range value {
		if runes == maxCell {
			return safe(value[:i]) + "…"
		}
		runes++
	}
	return safe(value)
}
