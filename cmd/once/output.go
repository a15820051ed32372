package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/config"
)

// jsonFlag adds --json to a command that prints data.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table prints rows in columns; the first row is the heading. Cells are cut, and safe to show.
func table(w io.Writer, rows [][]string) error {
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
	}
	return columns(w, rows)
}

// columns prints rows in columns, unchanged.
func columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		// Flush returns an error of the writer.
		_, _ = fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return t.Flush()
}

// lines prints pairs of names and values, one per line, without empty values.
func lines(w io.Writer, pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{cell(pairs[i]), safe(pairs[i+1])})
		}
	}
	return columns(w, rows)
}

// plural is [plain.Plural].
func plural(n int, word string) string { return plain.Plural(n, word) }

// stamp is [plain.Stamp].
func stamp(t *time.Time) string { return plain.Stamp(t) }

func dash(value string) string {
	if value == "" {
		return "-"
	}
	return value
}

// visible returns a destination's target for terminals and logs. For a webhook or a system it is
// only scheme and host, because path and query may contain a token.
func visible(d config.Destination) string {
	if d.Kind() != config.KindWebhook && d.Kind() != config.KindOnce {
		return d.Target()
	}
	return visibleURL(d.Target())
}

// visibleURL returns scheme and host of a URL.
func visibleURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "…"
	case u.RawQuery != "" || strings.Trim(u.Path, "/") != "":
		return u.Scheme + "://" + u.Host + "/…"
	}
	return u.Scheme + "://" + u.Host
}
