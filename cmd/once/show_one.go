package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/effectively-once/once/internal/admin"
)

func (a *app) showGroup(ctx context.Context, s admin.Admin, stream, group string, o showing) error {
	g, err := s.Group(ctx, stream, group)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, g)
	}
	err = lines(a.out, "group", g.Stream+"/"+g.Group, "version", fmt.Sprint(g.Version), "last number", fmt.Sprint(g.LastNumber),
		"pending", fmt.Sprint(len(g.Pending)), "held", fmt.Sprint(g.Held), "expires", stamp(g.Expires), "state", shown(g.State, "", g.StateBase64))
	if err != nil {
		return err
	}
	if len(g.Sources) > 0 {
		rows := [][]string{{"", ""}, {"SOURCE", "EPOCH", "NEXT", "HELD", "SKIPPED", "GAP SINCE"}}
		for _, x := range g.Sources {
			name := x.Source
			if x.Principal != "" {
				name = x.Principal + " " + name
			}
			rows = append(rows, []string{name, fmt.Sprint(x.Epoch), fmt.Sprint(x.Next), ranges(x.Held), ranges(x.Skipped), dash(stamp(x.GapSince))})
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
	if o.json {
		return printJSON(a.out, m)
	}
	pairs := []string{"message", m.ID, "stream", m.Stream, "group", m.Group, "status", m.Status, "reason", m.Reason, "expires", stamp(m.Expires)}
	if m.Reply != nil {
		pairs = append(pairs, "reply", fmt.Sprint(m.Reply.Status), "reply body", shown(m.Reply.Body, m.Reply.BodyText, m.Reply.BodyBase64))
	}
	return lines(a.out, pairs...)
}

func (a *app) showDeadLetters(ctx context.Context, s admin.Admin, o showing) error {
	o.deadLetters.Limit = o.limit
	letters, err := s.DeadLetters(ctx, o.deadLetters)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, append([]admin.DeadLetter{}, letters...))
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(a.out, "no dead letters")
		return err
	}
	rows := [][]string{{"QUEUE", "REASON", "STREAM", "ID", "GROUP", "DESTINATION", "SENT", "DETAIL"}}
	for _, d := range letters {
		id := d.ID
		if id == "" && d.Source != "" {
			id = fmt.Sprintf("%s/%d/%d", d.Source, d.Epoch, d.Sequence)
		}
		rows = append(rows, []string{d.Queue, d.Reason, d.Stream, dash(id), dash(d.Group), dash(d.Destination), stamp(&d.Sent), dash(printable(d.Detail))})
	}
	return table(a.out, rows)
}

// shown gives a text of one line for a value that is JSON, text or neither.
func shown(value json.RawMessage, text string, binary []byte) string {
	var b bytes.Buffer
	switch {
	case len(value) > 0 && json.Compact(&b, value) == nil:
		return b.String()
	case len(binary) > 0:
		return "base64 " + base64.StdEncoding.EncodeToString(binary)
	}
	return printable(text)
}

// printable keeps text that somebody sent from steering the terminal or breaking a table.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
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
