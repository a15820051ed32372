package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// A result has the figures of a run.
type result struct {
	messages  int
	rows, ids int
	took      map[fault][]time.Duration
}

// print prints the result. It returns an error if a row is missing or doubled.
func (r *result) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...any) { _, _ = fmt.Fprintf(w, "%v\t%v\t%v\t%v\n", cells...) }
	line("fault", "times", "median", "longest")
	for _, f := range []fault{killed, stopped, rivalled, crashed, abandoned, whole} {
		if all := slices.Sorted(slices.Values(r.took[f])); len(all) > 0 {
			line(f, len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\nmessages %s, SELECT count(*), count(DISTINCT id) FROM rows: %s, %s\n", digits(r.messages), digits(r.rows), digits(r.ids)); err != nil {
		return err
	}
	if r.rows != r.messages || r.ids != r.messages {
		return fmt.Errorf("%d rows are missing, %d are doubled", r.messages-r.ids, r.rows-r.ids)
	}
	return nil
}

// report prints the progress until the context ends.
func (r *run) report(ctx context.Context, began time.Time) {
	for tick := time.NewTicker(2 * time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n, err := processed(ctx, r.db); err == nil {
			_, _ = fmt.Fprintf(r.progress, "%4.0f s  %11s of %s processed, %d of %d faults\n", time.Since(began).Seconds(), digits(n), digits(r.messages), r.struck.Load(), r.faults)
		}
	}
}

func digits(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
