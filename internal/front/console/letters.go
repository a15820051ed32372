package console

import (
	"net/http"

	"github.com/effectively-once/once/internal/admin"
)

// A letterRow is a dead letter in a list.
type letterRow struct {
	admin.DeadLetter
	Command string
}

func (c *console) letterRows(r *http.Request, o admin.DeadLettersOptions) ([]letterRow, error) {
	list, err := c.System.DeadLetters(r.Context(), o)
	if err != nil {
		return nil, err
	}
	out := make([]letterRow, len(list))
	for i := range list {
		out[i] = letterRow{list[i], c.onFolder("redrive", "--id", list[i].Selector())}
	}
	return out, nil
}

// A letterList is the page of dead letters.
type letterList struct {
	Queue, Stream, Reason string
	Letters               []letterRow
	Full                  bool
}

// filterOf returns the dead letters that a request selects.
func filterOf(r *http.Request) admin.DeadLettersOptions {
	return admin.DeadLettersOptions{Queue: r.FormValue("queue"), Stream: r.FormValue("stream"), Reason: r.FormValue("reason"), Limit: admin.DefaultLimit}
}

// flags returns the flags of a command that selects the same dead letters.
func flags(o admin.DeadLettersOptions) []string {
	var out []string
	for _, f := range [][2]string{{"--queue", o.Queue}, {"--stream", o.Stream}, {"--reason", o.Reason}} {
		if f[1] != "" {
			out = append(out, f[0], f[1])
		}
	}
	return out
}

func (c *console) letters(r *http.Request) (view, error) {
	o := filterOf(r)
	list, err := c.letterRows(r, o)
	if err != nil {
		return view{}, err
	}
	data := letterList{Queue: o.Queue, Stream: o.Stream, Reason: o.Reason, Letters: list, Full: len(list) == o.Limit}
	commands := []string{c.onFolder(append([]string{"show", "--dead-letters"}, flags(o)...)...), c.onFolder(append([]string{"redrive"}, flags(o)...)...)}
	return view{Template: "letters", Title: "Dead letters", Live: true, Data: &data, Commands: commands}, nil
}

// A letter is the page of one dead letter.
type letter struct {
	admin.DeadLetter
	ShowBody bool
	BodyText string
}

// shownBody is how many bytes of a body are shown.
const shownBody = 64 << 10

// letter shows one dead letter. Its headers and its body are read only if the reader asks for them.
func (c *console) letter(r *http.Request) (view, error) {
	id := r.FormValue("id")
	o := admin.DeadLettersOptions{ID: id, Stream: r.FormValue("stream"), Limit: 1}
	data := letter{ShowBody: r.FormValue("body") != ""}
	if data.ShowBody {
		o.Content = shownBody
	}
	var found []admin.DeadLetter
	var err error
	if id != "" {
		found, err = c.System.DeadLetters(r.Context(), o)
	}
	switch {
	case err != nil:
		return view{}, err
	case len(found) == 0:
		return view{}, &failure{status: http.StatusNotFound, text: "There is no dead letter with this id any more: it was put back, or dropped."}
	}
	data.DeadLetter = found[0]
	if data.Content != nil {
		data.BodyText = body(&data.Content.Body)
	}
	which := append(flags(o), "--id", id)
	commands := []string{c.onFolder(append([]string{"show", "--dead-letters"}, which...)...), c.onFolder(append([]string{"redrive"}, which...)...), c.onFolder(append([]string{"drop"}, which...)...)}
	return view{Template: "letter", Title: "Dead letter", Live: true, Data: &data, Commands: commands}, nil
}
