package main

import (
	"context"
	"strings"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// consumeToFile appends the entries of a session to a file, until the end of the stream.
func (a *app) consumeToFile(ctx context.Context, c *client.Client, o *consuming) error {
	var options filecursor.Options
	if o.from > 0 {
		before := o.from - 1
		options.From = &before
	}
	return filecursor.Consume(ctx, c, o.session, o.file, options, func(b []byte, e *client.Entry) ([]byte, error) {
		return append(b, strings.TrimSuffix(oneLine(newTailLine(e)), "\n")...), nil
	})
}
