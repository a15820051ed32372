package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/capacity"
)

func done(i int, owner, reply string) record.Token {
	return record.Token{
		Key: record.NewTokenKey("", "orders", fmt.Sprint(i)), State: record.Done, Owner: owner, Expires: time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC(),
		Reply: &record.Reply{Status: 201, Header: map[string][]string{"Content-Type": {"text/plain"}}, Body: []byte(reply)},
	}
}

var large = strings.Repeat("x", 20<<10)

// A spy is a client with hooks before a read of a reply, and whose writes can fail.
type spy struct {
	dynamostore.Client
	beforeReply  func()
	beforeDelete func()
	failDelete   error
	fail         func(items []string) error
}

func (s *spy) GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if pk, ok := in.Key["pk"].(*types.AttributeValueMemberS); ok && strings.HasSuffix(*in.TableName, "-tokens") && strings.Contains(pk.Value, "#") && s.beforeReply != nil {
		before := s.beforeReply
		s.beforeReply = nil
		before()
	}
	return s.Client.GetItem(ctx, in, options...)
}

func (s *spy) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	var names []string
	for _, writes := range in.RequestItems {
		for _, w := range writes {
			if pk, ok := w.PutRequest.Item["pk"].(*types.AttributeValueMemberS); ok {
				names = append(names, pk.Value)
			}
		}
	}
	if s.fail != nil {
		if err := s.fail(names); err != nil {
			return nil, err
		}
	}
	return s.Client.BatchWriteItem(ctx, in, options...)
}

func (s *spy) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	if before := s.beforeDelete; before != nil {
		s.beforeDelete = nil
		before()
	}
	if pk, ok := in.Key["pk"].(*types.AttributeValueMemberS); ok && strings.Contains(pk.Value, "#") && s.failDelete != nil {
		return nil, s.failDelete
	}
	return s.Client.DeleteItem(ctx, in, options...)
}

type replyWorld struct {
	*dynamostore.Store
	spy    *spy
	client *dynamodb.Client
	tables dynamostore.Tables
}

func newReplyWorld(t *testing.T) *replyWorld {
	t.Helper()
	client := connect(t)
	w := &replyWorld{spy: &spy{Client: client}, client: client, tables: awstest.Tables(t, client)}
	w.Store = open(t, w.spy, w.tables, time.Now)
	return w
}

// items returns the number of items of tokens and of replies, and the size of the largest token.
func (w *replyWorld) items(t *testing.T) (tokens, replies, largest int) {
	t.Helper()
	out, err := w.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &w.tables.Tokens, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if it["st"] == nil {
			replies++
			continue
		}
		tokens++
		size := 0
		for name, v := range it {
			size += len(name)
			if b, ok := v.(*types.AttributeValueMemberB); ok {
				size += len(b.Value)
			}
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				size += len(s.Value)
			}
		}
		largest = max(largest, size)
	}
	return tokens, replies, largest
}

func (w *replyWorld) load(t *testing.T, keys ...record.TokenKey) []record.Token {
	t.Helper()
	_, tokens, err := w.Load(t.Context(), nil, keys)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestALargeReplyHasItsOwnItem(t *testing.T) {
	w := newReplyWorld(t)
	want := []record.Token{done(0, "a", large), done(1, "a", "small"), done(2, "b", large)}
	if err := w.MarkDone(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if tokens, replies, largest := w.items(t); tokens != 3 || replies != 2 || largest > 1<<10 {
		t.Errorf("%d tokens, %d replies, the largest token has %d bytes", tokens, replies, largest)
	}
	if d := cmp.Diff(want, w.load(t, want[0].Key, want[1].Key, want[2].Key)); d != "" {
		t.Error(d)
	}
	if listed, err := w.Tokens(t.Context(), record.TokenKey{}, 10); err != nil || len(listed) != 3 || listed[0].Reply == nil {
		t.Errorf("listed %d, %v", len(listed), err)
	}
	if err := w.MarkDone(t.Context(), want[:1]); err != nil {
		t.Fatal(err)
	}
	if _, replies, _ := w.items(t); replies != 2 {
		t.Errorf("%d replies after one was written again", replies)
	}
}

func TestWithoutRepliesADuplicateCostsOneSmallRead(t *testing.T) {
	var meter capacity.Meter
	options := connect(t).Options()
	meter.Attach(&options)
	client := dynamodb.New(options)
	tables := awstest.Tables(t, client)
	token := done(0, "a", large)
	if err := open(t, client, tables, time.Now).MarkDone(t.Context(), []record.Token{token}); err != nil {
		t.Fatal(err)
	}
	for reading, want := range map[dynamostore.ReplyReading]capacity.Cost{
		dynamostore.LeaveReplies: {Requests: 1, ReadUnits: 1}, dynamostore.ReadReplies: {Requests: 2, ReadUnits: 7},
	} {
		store, err := dynamostore.New(client, tables, dynamostore.Options{Replies: reading})
		if err != nil {
			t.Fatal(err)
		}
		var cost capacity.Cost
		for try := 0; try < 3 && cost != want; try++ { // if a connection breaks, the SDK retries
			meter.Reset()
			_, got, err := store.Load(t.Context(), nil, []record.TokenKey{token.Key})
			if err != nil || got[0].State != record.Done || (got[0].Reply == nil) != (reading == dynamostore.LeaveReplies) {
				t.Errorf("%+v, %v", got, err)
			}
			cost = meter.Reset()
		}
		if cost != want {
			t.Errorf("cost %+v, want %+v", cost, want)
		}
	}
}

func TestAReplyThatIsStillInTheGroupIsNotReadAgain(t *testing.T) {
	for _, c := range []struct {
		name, owner, reply string
		reads              int
	}{
		{"the same", "attempt.1", large, 0},
		{"another one", "attempt.2", large + "y", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newReplyWorld(t)
			want, inGroup := done(0, c.owner, large), done(0, c.owner, c.reply)
			commit := following(record.Group{Key: key}, "attempt")
			commit.Next.Pending = []record.Pending{{Number: 1, Attempt: "attempt.1", Token: want.Key, Reply: inGroup.Reply, Marks: true}}
			if err := w.Commit(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
			if err := w.MarkDone(t.Context(), []record.Token{want}); err != nil {
				t.Fatal(err)
			}
			reads := 0
			w.spy.beforeReply = func() { reads++ }
			groups, tokens, err := w.Load(t.Context(), []record.GroupKey{key}, []record.TokenKey{want.Key})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]record.Token{want}, tokens); d != "" || reads != c.reads {
				t.Errorf("%d reads of the reply, want %d; token (-want +got)\n%s", reads, c.reads, d)
			}
			groups[0].Pending[0].Reply.Body[0] = 'z'
			if tokens[0].Reply.Body[0] == 'z' {
				t.Error("the token shares the reply with the group")
			}
		})
	}
}

func TestTokenStatesReadsNoReplies(t *testing.T) {
	w := newReplyWorld(t)
	want := done(0, "a", large)
	if err := w.MarkDone(t.Context(), []record.Token{want}); err != nil {
		t.Fatal(err)
	}
	w.spy.beforeReply = func() { t.Error("the reply was read") }
	got, err := record.TokenStates(t.Context(), w.Store, []record.TokenKey{want.Key, {1}})
	want.Reply = nil
	if d := cmp.Diff([]record.Token{want, {Key: record.TokenKey{1}}}, got); err != nil || d != "" {
		t.Errorf("%v; tokens (-want +got)\n%s", err, d)
	}
}

func TestAConflictReturnsTheReplyAndDeletesTheLosers(t *testing.T) {
	w := newReplyWorld(t)
	winner, loser := done(0, "winner", large), done(0, "loser", large)
	absent := record.Token{Key: winner.Key}
	for range 2 { // also for our own write, repeated
		if _, err := w.SwapToken(t.Context(), absent, winner); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := w.SwapToken(t.Context(), absent, loser)
	if d := cmp.Diff(winner, stored); d != "" || !errors.Is(err, record.ErrConflict) {
		t.Errorf("%v, %s", err, d)
	}
	if _, replies, _ := w.items(t); replies != 1 {
		t.Errorf("%d replies", replies)
	}
	if _, err := w.SwapToken(t.Context(), winner, absent); err != nil {
		t.Fatal(err)
	}
	if tokens, replies, _ := w.items(t); tokens != 0 || replies != 0 {
		t.Errorf("%d tokens and %d replies after both were forgotten", tokens, replies)
	}
}

func TestASwapThatWasAppliedSucceedsThoughTheOldReplyStaysUntilItExpires(t *testing.T) {
	for name, instead := range map[string]record.Token{"written anew": done(0, "after", "small"), "deleted": {Key: done(0, "", "").Key}} {
		t.Run(name, func(t *testing.T) {
			w := newReplyWorld(t)
			before := done(0, "before", large)
			if err := w.MarkDone(t.Context(), []record.Token{before}); err != nil {
				t.Fatal(err)
			}
			w.spy.failDelete = errors.New("DynamoDB is away")
			for range 2 { // also for our own write, repeated
				got, err := w.SwapToken(t.Context(), before, instead)
				if d := cmp.Diff(instead, got); d != "" || err != nil {
					t.Errorf("%v; answer (-want +got)\n%s", err, d)
				}
			}
			if d := cmp.Diff(instead, w.load(t, before.Key)[0]); d != "" {
				t.Error(d)
			}
			// in whole seconds, none too early
			want := fmt.Sprint(before.Expires.Add(time.Second - time.Millisecond).Unix())
			if got := w.leftReply(t)["expires"]; got == nil || got.(*types.AttributeValueMemberN).Value != want {
				t.Errorf("what is left of the reply expires at %v, want %s", got, want)
			}
		})
	}
}

// leftReply returns the item of the one stored reply.
func (w *replyWorld) leftReply(t *testing.T) map[string]types.AttributeValue {
	t.Helper()
	out, err := w.client.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: &w.tables.Tokens, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("attribute_not_exists(st)"),
	})
	if err != nil || len(out.Items) != 1 {
		t.Fatalf("%d replies, %v", len(out.Items), err)
	}
	return out.Items[0]
}

// Two publishers of one entry write the same token, with the same reply.
func TestALoserKeepsTheReplyThatAConcurrentPublisherWrites(t *testing.T) {
	w := newReplyWorld(t)
	same := done(0, "both", large)
	issued := record.Token{Key: same.Key, State: record.Issued, Owner: "second"}
	if _, err := w.SwapToken(t.Context(), record.Token{Key: same.Key}, issued); err != nil {
		t.Fatal(err)
	}
	twin := func() {
		w.spy.beforeDelete = nil
		if _, err := w.SwapToken(t.Context(), issued, same); err != nil {
			t.Error(err)
		}
	}
	w.spy.beforeDelete = twin
	first := record.Token{Key: same.Key, State: record.Issued, Owner: "first"}
	if _, err := w.SwapToken(t.Context(), first, same); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if w.spy.beforeDelete != nil {
		twin()
	}
	if d := cmp.Diff(same, w.load(t, same.Key)[0]); d != "" {
		t.Error(d)
	}
}

func TestATokenThatIsRewrittenDuringAReadIsReadAgain(t *testing.T) {
	w := newReplyWorld(t)
	before, other := done(0, "before", large), done(1, "other", "small")
	after := done(0, "after", large+"!")
	if err := w.MarkDone(t.Context(), []record.Token{before, other}); err != nil {
		t.Fatal(err)
	}
	w.spy.beforeReply = func() {
		if _, err := w.SwapToken(t.Context(), before, after); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]record.Token{other, after}, w.load(t, other.Key, before.Key)); d != "" {
		t.Error(d)
	}
}

func TestATokenThatIsWrittenAgainWithItsReplyKeepsIt(t *testing.T) {
	w := newReplyWorld(t)
	before := done(0, "both", large)
	if err := w.MarkDone(t.Context(), []record.Token{before}); err != nil {
		t.Fatal(err)
	}
	longer := before
	longer.Expires = before.Expires.Add(time.Hour)
	if _, err := w.SwapToken(t.Context(), before, longer); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(longer, w.load(t, before.Key)[0]); d != "" {
		t.Error(d)
	}
}
