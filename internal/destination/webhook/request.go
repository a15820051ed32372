package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/effectively-once/once/internal/record"
)

// A Signer returns the signature of one request, for the header "webhook-signature". A nil one does
// not sign.
type Signer func(id string, at time.Time, body []byte) (string, error)

// signer reads the secret. No error contains any part of it.
func (s *Sender) signer() (Signer, error) { return NewSigner(s.options.Secret) }

// NewSigner reads a secret, as [Options.Secret] returns it. A nil function means no signature. No
// error contains any part of the secret.
func NewSigner(read func() (string, error)) (Signer, error) {
	if read == nil {
		return nil, nil //nolint:nilnil // nothing to sign with, as configured
	}
	secret, err := read()
	if err != nil {
		return nil, fmt.Errorf("read webhook secret: %w", err)
	}
	keys, err := keysOf(secret)
	if err != nil {
		return nil, err
	}
	return func(id string, at time.Time, body []byte) (string, error) {
		signatures := make([]string, len(keys))
		for i, key := range keys {
			var err error // not that of NewSigner: groups are signed concurrently
			if signatures[i], err = key.Sign(id, at, body); err != nil {
				return "", err
			}
		}
		return strings.Join(signatures, " "), nil
	}, nil
}

// maxSecrets is how many secrets may sign a request: the old one, the new one, and one to spare.
const maxSecrets = 3

// keysOf reads a text with one secret or several, with white space between them. No error contains
// any part of it.
func keysOf(text string) ([]*standardwebhooks.Webhook, error) {
	secrets := strings.Fields(text)
	if len(secrets) == 0 {
		return nil, errEmptySecret
	}
	if len(secrets) > maxSecrets {
		return nil, fmt.Errorf("webhook secret has %d parts, more than %d: write one secret, or during a rotation the new one and the old one with a space between them", len(secrets), maxSecrets)
	}
	keys := make([]*standardwebhooks.Webhook, len(secrets))
	for i, secret := range secrets {
		if strings.TrimPrefix(secret, "whsec_") == "" {
			return nil, errEmptySecret
		}
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, errBadSecret
		}
		keys[i] = key
	}
	return keys, nil
}

var (
	errBadSecret   = errors.New(`webhook secret must be base64, with or without "whsec_" before it`)
	errEmptySecret = errors.New("webhook secret must not be empty")
)

// ValidSecret checks that a secret is not empty and is base64, with or without the prefix "whsec_".
// There may be several, with white space between them. The error does not contain them.
func ValidSecret(secret string) error {
	_, err := keysOf(secret)
	return err
}

func (t *turn) request(ctx context.Context, d *record.Delivery) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(d.Effect.Body))
	if err != nil {
		return nil, errors.New("make request") // the error would contain the URL
	}
	for name, value := range d.Effect.Headers {
		if forwards(name) && carries(value) {
			r.Header.Set(name, value)
		}
	}
	id := headerText(d.Identity)
	key, err := httpsfv.Marshal(httpsfv.NewItem(id))
	if err != nil {
		return nil, fmt.Errorf("write Idempotency-Key: %w", err)
	}
	now := t.options.Now()
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set(standardwebhooks.HeaderWebhookID, id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	setOrigin(r.Header, d)
	if t.sign != nil {
		signature, err := t.sign(id, now, d.Effect.Body)
		if err != nil {
			return nil, errors.New("sign webhook")
		}
		r.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return r, nil
}

// setOrigin sets the headers about the sender of the delivery.
func setOrigin(h http.Header, d *record.Delivery) {
	number, incarnation := "", ""
	if d.Number > 0 {
		number, incarnation = strconv.FormatUint(d.Number, 10), strconv.FormatUint(d.Incarnation, 10)
	}
	for _, field := range [...]struct{ name, value string }{
		{"Content-Type", d.Effect.ContentType},
		{"Once-Stream", d.Stream},
		{"Once-Group", d.Group},
		{"Once-Number", number},
		{"Once-Incarnation", incarnation},
		{"Once-Id", d.Effect.ID},
	} {
		if field.value != "" && carries(field.value) {
			h.Set(field.name, field.value)
		}
	}
}

// forwards reports whether a header of the effect may be sent: not those that are set here, and not
// those that belong to one connection. An underscore counts as a dash, because many receivers, such
// as all CGI programs, do not distinguish them, and would read the effect's webhook_id as the id.
func forwards(name string) bool {
	if !record.IsToken(name) {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "once-") || strings.HasPrefix(name, "proxy-") {
		return false
	}
	switch name {
	case "idempotency-key", "content-type", "content-length", "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding",
		"upgrade", "expect", "accept-encoding":
		return false
	}
	return true
}

// carries reports whether HTTP can carry a header's value.
func carries(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// headerText returns an identity in a form that every receiver reads as the same bytes: unchanged
// if it is printable ASCII without space at its ends.
func headerText(identity string) string {
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if !strings.ContainsFunc(identity, odd) && strings.TrimSpace(identity) == identity {
		return identity
	}
	return "~" + url.PathEscape(identity)
}
