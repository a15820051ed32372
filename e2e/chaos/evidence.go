package chaos

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// An Offer is a message that clients send. ID is the identity of its effects: the key, or
// source/epoch/sequence.
type Offer struct {
	Stream   string `json:"stream"`
	ID       string `json:"id"`
	Group    string `json:"group,omitempty"`
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// ContentType is the content type of the body; empty if it is not judged.
	ContentType string `json:"content_type,omitempty"`
	// SHA256 is the hash of the body, see [Digest].
	SHA256 string `json:"sha256"`
}

// An Answer is the final answer to a client's call, after any number of retries.
type Answer struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`
	// Way is http or sqs.
	Way string `json:"way"`
	// Code is the HTTP status; 200 for SQS.
	Code int `json:"code"`
	// Replayed says that the server had the message before. Answers of SQS never say so.
	Replayed bool `json:"replayed,omitempty"`
	// Reuse says that the call had other content under the identity of an accepted message.
	Reuse bool `json:"reuse,omitempty"`
	// Status, Group and Location are the HTTP answer's fields for an accepted message: the same
	// each time.
	Status   string `json:"status,omitempty"`
	Group    string `json:"group,omitempty"`
	Location string `json:"location,omitempty"`
}

// A Status is the public API's status of a message.
type Status struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`
	Status string `json:"status"`
}

// A Line is the judged part of a line in the product's file destination.
type Line struct {
	Stream      string          `json:"stream"`
	Group       string          `json:"group"`
	Number      uint64          `json:"number"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Sequence    uint64          `json:"sequence"`
	ContentType string          `json:"content_type"`
	Body        json.RawMessage `json:"body"`
	BodyBase64  string          `json:"body_base64"`
}

// A Post is one webhook request that was handled.
type Post struct {
	Stream    string `json:"stream"`
	ID        string `json:"id"`
	WebhookID string `json:"webhook_id"`
	Group     string `json:"group,omitempty"`
	Number    uint64 `json:"number,omitempty"`
	// ContentType and SHA256 describe the body.
	ContentType string `json:"content_type,omitempty"`
	SHA256      string `json:"sha256"`
	// Wrong says why the receiver rejects the request: a signature, a header.
	Wrong string `json:"wrong,omitempty"`
}

// A Letter is a dead letter.
type Letter struct {
	Reason string `json:"reason"`
	Stream string `json:"stream"`
	ID     string `json:"id"`
}

// A Run is a run's own description.
type Run struct {
	Form string `json:"form"`
	Seed uint64 `json:"seed"`
	// Destinations are the files, ledger or posts, in which each stream's messages must be found.
	Destinations map[string][]string `json:"destinations"`
	// Ordered are the streams in which every effect of a group has a number, by which the order is
	// judged.
	Ordered []string `json:"ordered"`
	// Faults counts the injected faults by name.
	Faults map[string]int `json:"faults"`
	// Left lists the system's remaining work at the end; empty if all is well.
	Left []string `json:"left"`
	// Seconds is the duration of the run.
	Seconds float64 `json:"seconds"`
}

// Digest returns the SHA-256 of a body in hexadecimal; of JSON without white space, which the file
// destination leaves out.
func Digest(contentType string, body []byte) string {
	var b bytes.Buffer
	if contentType == "application/json" && json.Compact(&b, body) == nil {
		body = b.Bytes()
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// digest returns the digest of a line's body.
func (l *Line) digest() (string, error) {
	switch {
	case l.BodyBase64 != "":
		body, err := base64.StdEncoding.DecodeString(l.BodyBase64)
		return Digest("", body), err
	case l.ContentType == "application/json":
		return Digest(l.ContentType, l.Body), nil
	}
	var text string
	err := json.Unmarshal(l.Body, &text)
	return Digest("", []byte(text)), err
}

// each reads a file of JSON lines. A truncated line is an error; a missing file is empty.
func each[T any](folder, name string, do func(n int, t *T)) error {
	file, err := os.Open(filepath.Join(folder, name)) //nolint:gosec // the operator names it
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	defer file.Close()
	for n, r := 1, bufio.NewReaderSize(file, 1<<20); ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d %.100q: %w", name, n, text, err)
		}
		var t T
		if err := json.Unmarshal(text, &t); err != nil {
			return fmt.Errorf("read %s, line %d %.100q: %w", name, n, text, err)
		}
		do(n, &t)
	}
}
