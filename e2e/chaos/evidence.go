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

// An Offer is a message that clients were to send. ID is the identity under which it comes out: the key, or source/epoch/sequence.
type Offer struct {
	Stream   string `json:"stream"`
	ID       string `json:"id"`
	Group    string `json:"group,omitempty"`
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// ContentType is that of the body; empty where it is not judged.
	ContentType string `json:"content_type,omitempty"`
	// SHA256 is that of the body, see [Digest].
	SHA256 string `json:"sha256"`
}

// An Answer is what a client was told of one try that ended, after as many repetitions as it took.
type Answer struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`
	// Way is http or sqs.
	Way string `json:"way"`
	// Code is the status of HTTP; of SQS 200.
	Code int `json:"code"`
	// Replayed says that the server had the message before. SQS never says.
	Replayed bool `json:"replayed,omitempty"`
	// Reuse says that it was another content under the identity of a message that had been accepted before.
	Reuse bool `json:"reuse,omitempty"`
	// Status, Group and Location are what an answer by HTTP says of an accepted message: the same each time.
	Status   string `json:"status,omitempty"`
	Group    string `json:"group,omitempty"`
	Location string `json:"location,omitempty"`
}

// A Status is what the public API says of a message.
type Status struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`
	Status string `json:"status"`
}

// A Line is one line of the product's file destination, as far as it is judged.
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
	// ContentType and SHA256 are those of the body.
	ContentType string `json:"content_type,omitempty"`
	SHA256      string `json:"sha256"`
	// Wrong says what the receiver did not like: a signature, a header.
	Wrong string `json:"wrong,omitempty"`
}

// A Letter is a dead letter.
type Letter struct {
	Reason string `json:"reason"`
	Stream string `json:"stream"`
	ID     string `json:"id"`
}

// A Run is what a run says of itself.
type Run struct {
	Form string `json:"form"`
	Seed uint64 `json:"seed"`
	// Destinations are the files, ledger or posts, in which each stream's messages must be found.
	Destinations map[string][]string `json:"destinations"`
	// Ordered are the streams in which every message of a group comes out with a number, by which its order is judged.
	Ordered []string `json:"ordered"`
	// Faults counts what was done, by its name.
	Faults map[string]int `json:"faults"`
	// Left tells what the system still had to do in the end; nothing where all is well.
	Left []string `json:"left"`
	// Seconds is how long all of it took.
	Seconds float64 `json:"seconds"`
}

// Digest is the SHA-256 of a body in hexadecimal; that of JSON without its white space, which the file destination leaves out.
func Digest(contentType string, body []byte) string {
	var b bytes.Buffer
	if contentType == "application/json" && json.Compact(&b, body) == nil {
		body = b.Bytes()
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// digest is that of a line's body.
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

// each reads a file of JSON lines. A line that is cut off is an error; a file that is not there has none.
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
