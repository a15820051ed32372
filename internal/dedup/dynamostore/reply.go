package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// A ReplyReading selects whether tokens are read with their replies.
type ReplyReading int

const (
	// ReadReplies returns every token with its reply.
	ReadReplies ReplyReading = iota
	// LeaveReplies leaves out replies that have their own items. It is for functions in which no
	// caller waits for a reply, so that a duplicate costs one small read, even if its reply is
	// large. Such a token must not be written again with a swap.
	LeaveReplies
)

// inlineReply is how large a reply in its token's item may be, in encoded bytes. A larger one has
// its own item. A failed condition on the token, as every duplicate at the HTTP API causes, then
// costs only the size of the token's item.
const inlineReply = 1 << 10

// replyOf returns the item of a token's reply, or nil if there is none or it is stored inline. The
// item's key is a hash of attempt and content, so that concurrent attempts never overwrite each
// other's replies.
func replyOf(t *record.Token) (item, error) {
	if t.Reply == nil {
		return nil, nil // nil means no item
	}
	e := &encoding.Encoder{}
	if encoding.WriteReply(e, t.Reply); len(e.B) <= inlineReply {
		return nil, nil // nil means no item
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %q ", t.Epoch, t.Owner) // a hash never fails
	_, _ = h.Write(e.B)
	it := item{attrPK: str(t.Key.String() + replyMark + hex.EncodeToString(h.Sum(nil)[:16]))}
	it[attrFormat], it[attrReply] = number(format), binary(e.B)
	put(it, attrExpires, instant(t.Expires))
	put(it, attrTTL, ttl(t.Expires))
	return it, fits(it)
}

// putReply writes a reply before its token, so that every stored token has its reply.
func (s *Store) putReply(ctx context.Context, it item) error {
	if it == nil {
		return nil
	}
	if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Tokens, Item: it}); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}

// dropReply deletes the reply that a token no longer refers to. An error is ignored, because the
// swap is already decided: an orphaned reply expires when its token would have.
func (s *Store) dropReply(ctx context.Context, gone, instead *record.Token) {
	it, err := replyOf(gone)
	if err != nil || it == nil {
		return
	}
	if other, err := replyOf(instead); err != nil || other != nil && partitionOf(other) == partitionOf(it) {
		return
	}
	_, _ = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.tables.Tokens, Key: item{attrPK: it[attrPK]}})
}

// A storedToken is a token as it was read, and the key of its reply.
type storedToken struct {
	record.Token
	reply string // the partition key of the reply's item; empty if there is none
}

// replies are the replies of pending entries, by token.
type replies map[record.TokenKey]*record.Reply

// repliesIn returns the replies of groups that were just read, so that the reply of a duplicate
// whose entry is still pending need not be read again.
func repliesIn(groups []record.Group) replies {
	out := replies{}
	for i := range groups {
		for _, p := range groups[i].Pending {
			if p.Reply != nil {
				out[p.Token] = p.Reply
			}
		}
	}
	return out
}

// item returns the item of a token's reply if r has that very reply, which the item's key proves.
func (r replies) item(t storedToken) item {
	t.Reply = r[t.Key]
	it, err := replyOf(&t.Token)
	if err != nil || it == nil || partitionOf(it) != t.reply {
		return nil
	}
	return it
}

// complete reads the separate replies that are not in atHand. missing lists the tokens whose
// replies are gone: these tokens have been rewritten since they were read.
func (s *Store) complete(ctx context.Context, tokens []storedToken, atHand replies) (missing []int, err error) {
	if s.options.Replies == LeaveReplies {
		return nil, nil
	}
	items := map[string]item{}
	var keys []item
	for _, t := range tokens {
		if t.reply == "" {
			continue
		}
		if items[t.reply] = atHand.item(t); items[t.reply] == nil {
			keys = append(keys, item{attrPK: str(t.reply)})
		}
	}
	read, err := s.read(ctx, s.tables.Tokens, keys)
	if err != nil {
		return nil, fmt.Errorf("read replies: %w", err)
	}
	maps.Copy(items, read)
	for i := range tokens {
		t := &tokens[i]
		if t.reply == "" {
			continue
		}
		if len(items[t.reply]) == 0 {
			missing = append(missing, i)
			continue
		}
		r := &reader{item: items[t.reply]}
		r.checkFormat()
		if !r.record(attrReply, func(d *encoding.Decoder) { t.Reply = encoding.ReadReply(d) }) {
			r.fail(attrReply, "is missing")
		}
		if r.err != nil {
			return nil, fmt.Errorf("reply of token %s: %w", t.Key, r.err)
		}
	}
	return missing, nil
}
