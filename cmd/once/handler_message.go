package main

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/effectively-once/once/internal/record"
)

// messageFlags adds the flags that say which messages the handler gets.
func (o *trying) messageFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.messages, "message", nil, "body of a message, @FILE or @-; may be repeated (required without --timer)")
	f.StringVar(&o.id, "id", "", "id of the message; with several messages, the beginning of their ids (default \"try\")")
	f.IntVar(&o.number, "try", 1, "how often the messages were delivered")
	f.StringVar(&o.timer, "timer", "", "make the message that of this timer of the group; --message is its body")
	f.StringVar(&o.contentType, "content-type", "application/json", "media type of the bodies; if it is not JSON, they are text")
	f.StringArrayVar(&o.headers, "header", nil, "header NAME=VALUE of the messages; may be repeated")
}

// validMessages checks the flags of the messages.
func (o *trying) validMessages() error {
	switch {
	case len(o.messages) == 0 && o.timer == "":
		return errors.New("--message is required: the body of a message, as JSON")
	case len(o.messages) > 1 && o.timer != "":
		return errors.New("--timer makes one message: give --message once, or not at all")
	case o.id != "" && o.timer != "":
		return errors.New("--id and --timer exclude each other: the message of a timer has an id of its own")
	case o.number < 1:
		return errors.New("--try must be at least 1")
	}
	if _, _, err := mime.ParseMediaType(o.contentType); err != nil {
		return fmt.Errorf("--content-type %q must be a media type, such as application/json or text/plain", o.contentType)
	}
	return nil
}

// tried returns the messages of the request, checked as those of a sender are.
func (a *app) tried(stream string, o *trying) ([]record.Message, error) {
	headers, err := namedValues(o.headers)
	if err != nil {
		return nil, err
	}
	if len(o.messages) == 0 {
		return []record.Message{o.timed(record.Message{Stream: stream, Group: o.group, Headers: headers, Accepted: time.Now(), Try: o.number})}, nil
	}
	all := make([]record.Message, len(o.messages))
	for i, argument := range o.messages {
		body, err := a.triedBody(argument, o.contentType)
		if err != nil {
			return nil, err
		}
		all[i] = o.timed(record.Message{
			Stream: stream, Group: o.group, ID: o.idOf(i), ContentType: o.contentType, Headers: headers, Body: body, Accepted: time.Now(), Try: o.number,
		})
	}
	return all, nil
}

// idOf returns the id of a message by its index.
func (o *trying) idOf(i int) string {
	switch {
	case o.id == "":
		return "try-" + strconv.Itoa(i+1)
	case len(o.messages) == 1:
		return o.id
	}
	return o.id + "-" + strconv.Itoa(i+1)
}

// timed makes a message that of a timer, if there is --timer.
func (o *trying) timed(m record.Message) record.Message {
	if o.timer != "" {
		m.Timer, m.TimerNumber, m.ID = o.timer, 1, record.TimerID(0, 1)
	}
	return m
}

// triedBody returns the body of a message: JSON if the media type says so.
func (a *app) triedBody(argument, contentType string) ([]byte, error) {
	if record.IsJSON(contentType) {
		return a.argument("--message", argument)
	}
	return a.read("--message", argument)
}

// read returns the text of a flag: itself, or that of a file.
func (a *app) read(flag, text string) ([]byte, error) {
	path, named := strings.CutPrefix(text, "@")
	if !named {
		return []byte(text), nil
	}
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(a.in)
	} else {
		data, err = os.ReadFile(path) //nolint:gosec // the user names it
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return data, nil
}
