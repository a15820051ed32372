package main

import (
	"context"
	"strings"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// newSessionLine returns an entry as a line. Entries of a pool are of several groups.
func newSessionLine(e *client.Entry, s *client.SessionOptions) tailLine {
	l := newTailLine(e)
	if s.Group == "" {
		l.Group = e.Group
	}
	return l
}

// consumeToFile appends the entries of a session to a file, until the end of the stream.
func (a *app) consumeToFile(ctx context.Context, c *client.Client, o *consuming) error {
	var options filecursor.Options
	if o.from > 0 {
		before := o.from - 1
		options.From = &before
	}
	return filecursor.Consume(ctx, c, o.session, o.file, options, func(b []byte, e *client.Entry) ([]byte, error) {
		return append(b, strings.TrimSuffix(oneLine(newSessionLine(e, &o.session)), "\n")...), nil
	})
}
