package console

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/record"
)

// operator names the console in the log.
const operator = "console"

// A result is the page after something was written.
type result struct {
	Text     string
	Failures []admin.RedriveFailure
	Link     string
	LinkText string
}

// A form is the page that sends a message, with the fields as they were filled in.
type form struct {
	Streams []record.Stream
	Values  map[string]string
	Error   string
}

func (c *console) sendForm(r *http.Request) (view, error) {
	return c.formView(r, map[string]string{"stream": r.FormValue("stream"), "group": r.FormValue("group"), "new": rand.Text()}, ""), nil
}

func (c *console) formView(r *http.Request, values map[string]string, failed string) view {
	return view{
		Template: "send", Title: "Send a message", Data: &form{c.Streams(), values, failed},
		Commands: []string{c.onServer(r, "send", "STREAM", `{"hello":"world"}`, "--key", "KEY")},
	}
}

// send sends the message of a form, and shows it. If it is refused, the form is shown again.
func (c *console) send(r *http.Request) (view, error) {
	values := map[string]string{}
	for _, name := range []string{"stream", "key", "new", "group", "source", "sequence", "body"} {
		values[name] = r.PostForm.Get(name)
	}
	number, err := numberOf(r, "sequence")
	if err != nil {
		return c.formView(r, values, err.Error()), nil
	}
	key := values["key"]
	if key == "" && values["source"] == "" {
		key = values["new"] // the key of the form: if it is submitted again, it is the same message
	}
	m := client.Message{
		Stream: values["stream"], Key: key, Group: values["group"], Source: values["source"], Sequence: number,
		Body: []byte(strings.ReplaceAll(values["body"], "\r\n", "\n")), ContentType: "text/plain; charset=utf-8",
	}
	if json.Valid(m.Body) {
		m.ContentType = "application/json"
	}
	receipt, err := c.api.Send(r.Context(), m)
	if err != nil {
		return c.formView(r, values, err.Error()), nil
	}
	info, err := c.System.Message(r.Context(), receipt.Stream, receipt.ID)
	if err != nil { // a numbered message without a reply leaves no record when it is done
		text := "Message " + receipt.ID + " is " + receipt.Status + "."
		return c.result(text, nil, link("/group", "stream", receipt.Stream, "group", receipt.Group), "its group"), nil //nolint:nilerr // it was sent
	}
	return c.messageView(r, info, &receipt)
}

func (c *console) result(text string, failures []admin.RedriveFailure, to, linkText string, commands ...string) view {
	return view{Template: "result", Title: "Done", Data: &result{text, failures, to, linkText}, Commands: commands}
}

// redrive puts back one dead letter, or those of a filter.
func (c *console) redrive(r *http.Request) (view, error) {
	f := filterOf(r)
	o := admin.RedriveOptions{Queue: f.Queue, Stream: f.Stream, Reason: f.Reason, ID: r.FormValue("id"), Answered: r.FormValue("answered") != "", By: operator}
	args := append([]string{"redrive"}, flags(f)...)
	if o.ID != "" {
		args = append(args, "--id", o.ID)
	}
	if o.Answered {
		args = append(args, "--answered")
	}
	info, err := c.System.Redrive(r.Context(), o)
	if err != nil {
		return view{}, err
	}
	text := "Put back " + plain.Plural(info.Redriven, "dead letter") + "."
	if info.Failed > 0 {
		text += " " + plain.Plural(info.Failed, "dead letter") + " could not be put back."
	}
	if info.Answered > 0 {
		text += " " + plain.Plural(info.Answered, "dead letter") + " not put back: the senders were told no."
	}
	if o.ID != "" && info.Redriven+info.Answered+info.Failed == 0 {
		text = "There is no such dead letter any more."
	}
	return c.result(text, info.Failures, link("/letters"), "dead letters", c.onFolder(args...)), nil
}

// drop deletes one dead letter.
func (c *console) drop(r *http.Request) (view, error) {
	o := admin.DropOptions{ID: r.FormValue("id"), Stream: r.FormValue("stream"), By: operator}
	info, err := c.System.Drop(r.Context(), o)
	if err != nil {
		return view{}, err
	}
	return c.result("Dropped "+plain.Plural(info.Dropped, "dead letter")+".", nil, link("/letters"), "dead letters", c.onFolder("drop", "--id", o.ID)), nil
}

// skip makes a pending effect a dead letter.
func (c *console) skip(r *http.Request) (view, error) {
	number, err := strconv.ParseUint(r.FormValue("number"), 10, 64)
	if err != nil {
		return view{}, &failure{status: http.StatusBadRequest, text: "The number of the effect must be a whole number."}
	}
	o := admin.SkipOptions{Stream: r.FormValue("stream"), Group: r.FormValue("group"), Number: number}
	info, err := c.System.Skip(r.Context(), o)
	if err != nil {
		return view{}, err
	}
	text := "Effect " + r.FormValue("number") + " is a dead letter for " + strings.Join(info.Destinations, ", ") + ". It can be put back later."
	at := o.Stream + "/" + o.Group
	return c.result(text, nil, link("/group", "stream", o.Stream, "group", o.Group), "the group",
		c.onFolder("skip", at, r.FormValue("number")), c.onFolder("redrive", "--id", at+"/"+r.FormValue("number"))), nil
}
