package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
)

func TestATokenThatHasLostItsReplyIsCorrupt(t *testing.T) {
	w := newReplyWorld(t)
	token := done(0, "a", large)
	if err := w.MarkDone(t.Context(), []record.Token{token}); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &w.tables.Tokens, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if it["st"] == nil {
			if _, err := w.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.tables.Tokens, Key: map[string]types.AttributeValue{"pk": it["pk"]}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	store, err := dynamostore.New(w.client, w.tables, dynamostore.Options{Pause: func(context.Context, int) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Load(t.Context(), nil, []record.TokenKey{token.Key}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	others := []record.Token{done(1, "b", large), done(2, "c", large)}
	if err := w.MarkDone(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	listed, err := store.Tokens(t.Context(), record.TokenKey{}, 10)
	if !errors.Is(err, record.ErrCorrupt) || len(listed) != len(others) {
		t.Errorf("beside it, %d tokens are listed, %v", len(listed), err)
	}
	for _, found := range listed {
		if found.Reply == nil || len(found.Reply.Body) != len(others[0].Reply.Body) {
			t.Errorf("token %s is listed without its reply", found.Key)
		}
	}
}

func TestNoTokenIsDoneBeforeItsReplyIsWritten(t *testing.T) {
	w := newReplyWorld(t)
	w.spy.fail = func(names []string) error {
		for _, name := range names {
			if strings.Contains(name, "#") {
				return errors.New("away")
			}
		}
		return nil
	}
	tokens := []record.Token{done(0, "a", large), done(1, "a", large)}
	if err := w.MarkDone(t.Context(), tokens); err == nil {
		t.Error("marked without a reply")
	}
	for _, token := range w.load(t, tokens[0].Key, tokens[1].Key) {
		if token.State != record.Absent {
			t.Errorf("token is %v", token.State)
		}
	}
}

func TestAReplyExpiresWithItsToken(t *testing.T) {
	w := newReplyWorld(t)
	token := done(0, "a", large)
	if err := w.MarkDone(t.Context(), []record.Token{token}); err != nil {
		t.Fatal(err)
	}
	later := open(t, w.client, w.tables, func() time.Time { return token.Expires })
	if n, err := later.Expire(t.Context(), 10); n != 2 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	if tokens, replies, _ := w.items(t); tokens+replies != 0 {
		t.Errorf("%d tokens and %d replies are left", tokens, replies)
	}
	if !bytes.Equal(token.Reply.Body, []byte(large)) {
		t.Error("the token was changed")
	}
}
