package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

func (a *app) showGroup(ctx context.Context, s admin.Admin, stream, group string, o showing) error {
	g, err := s.Group(ctx, stream, group)
	if errors.Is(err, admin.ErrNotFound) && !o.json {
		// a message without a group of its own is alone in a group of its name
		if m, failed := s.Message(ctx, stream, group); failed == nil {
			return errors.Join(a.note(err.Error()+"\nthere is a message with that id:\n"), a.printMessage(m, o))
		}
	}
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, g)
	}
	pairs := []string{
		"group", g.Stream + "/" + g.Group, "version", fmt.Sprint(g.Version), "last number", fmt.Sprint(g.LastNumber),
		"pending", fmt.Sprint(len(g.Pending)), "held", fmt.Sprint(g.Held), "expires", stamp(g.Expires), "state", shown(admin.Body{JSON: g.State, Base64: g.StateBase64}),
	}
	if err := lines(a.out, append(pairs, waits(g.Waiting)...)...); err != nil {
		return err
	}
	if len(g.Sources) > 0 {
		rows := [][]string{{"", ""}, {"SOURCE", "EPOCH", "NEXT", "HELD", "SKIPPED", "GAP SINCE"}}
		for _, x := range g.Sources {
			rows = append(rows, []string{plain.Source(x.Principal, x.Source), fmt.Sprint(x.Epoch), fmt.Sprint(x.Next), ranges(x.Held), ranges(x.Skipped), dash(stamp(x.GapSince))})
		}
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	if len(g.Timers) > 0 {
		rows := [][]string{{"", ""}, {"TIMER", "DUE"}}
		for _, x := range g.Timers {
			rows = append(rows, []string{x.Name, stamp(&x.Due)})
		}
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	if len(g.Pending) == 0 {
		return nil
	}
	rows := [][]string{{"", ""}, {"NUMBER", "ID", "ATTEMPT", "EFFECTS", "SENT"}}
	for _, p := range g.Pending {
		rows = append(rows, []string{fmt.Sprint(p.Number), p.ID, p.Attempt, fmt.Sprint(p.Effects), fmt.Sprint(p.Sent)})
	}
	return table(a.out, rows)
}

func (a *app) showMessage(ctx context.Context, s admin.Admin, stream string, o showing) error {
	m, err := s.Message(ctx, stream, o.id)
	if err != nil {
		return err
	}
	return a.printMessage(m, o)
}

// byHash returns the function that shows a message by its hash.
func (a *app) byHash(stream string, o showing) (func(context.Context, admin.Admin) error, error) {
	options := admin.HashOptions{Stream: stream, Hash: o.hash}
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("--hash %w", err)
	}
	return func(ctx context.Context, s admin.Admin) error {
		m, err := s.ByHash(ctx, options)
		if err != nil {
			return err
		}
		return a.printMessage(m, o)
	}, nil
}

func (a *app) printMessage(m admin.MessageInfo, o showing) error {
	if o.json {
		return printJSON(a.out, m)
	}
	pairs := []string{"message", m.ID, "hash", m.Hash, "stream", m.Stream, "group", m.Group, "status", m.Status, "reason", m.Reason, "detail", m.Detail, "expires", stamp(m.Expires)}
	if m.Reply != nil {
		pairs = append(pairs, "reply", fmt.Sprint(m.Reply.Status), "reply body", shown(m.Reply.Body))
	}
	return lines(a.out, append(pairs, waits(m.Waiting)...)...)
}

// shown returns a body as text: JSON on one line.
func shown(body admin.Body) string {
	var b bytes.Buffer
	switch {
	case len(body.JSON) > 0 && json.Compact(&b, body.JSON) == nil:
		return b.String()
	case len(body.Base64) > 0:
		return "base64 " + base64.StdEncoding.EncodeToString(body.Base64)
	}
	return body.Text
}

func ranges(list []admin.Range) string {
	parts := make([]string, len(list))
	for i, r := range list {
		parts[i] = fmt.Sprint(r.First)
		if r.Last > r.First {
			parts[i] += fmt.Sprintf("-%d", r.Last)
		}
	}
	return dash(strings.Join(parts, ", "))
}
