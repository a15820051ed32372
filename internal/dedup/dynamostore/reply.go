package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// A ReplyReading says what is read with a token.
type ReplyReading int

const (
	// ReadReplies gives every token with its reply.
	ReadReplies ReplyReading = iota
	// LeaveReplies leaves out the replies that are kept in items of their own: for functions in which nobody waits for one, so that a duplicate is one small read
	// whatever its reply was. A token that was read so must not be written again with a swap.
	LeaveReplies
)

// inlineReply is how large a reply in its token's item may be, in bytes as encoded. A larger one has an item of its own: whoever fails a condition on the token, as every
// duplicate at the door does, pays for the token's item only.
const inlineReply = 1 << 10

// replyOf gives the item of a token's reply; nil where there is none, or a small one. The item's name is of the attempt and of the content: no attempt writes over the reply of
// another one, whichever of them wins the token.
func replyOf(t *record.Token) (item, error) {
	if t.Reply == nil {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	e := &stored.Encoder{}
	if stored.WriteReply(e, t.Reply); len(e.B) <= inlineReply {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %q ", t.Epoch, t.Owner) // a hash takes everything
	_, _ = h.Write(e.B)
	it := item{attrPK: str(t.Key.String() + replyMark + hex.EncodeToString(h.Sum(nil)[:16]))}
	it[attrFormat], it[attrReply] = number(format), binary(e.B)
	put(it, attrExpires, instant(t.Expires))
	put(it, attrTTL, ttl(t.Expires))
	return it, fits(it)
}

// putReply writes a reply ahead of its token: a token that is there has its reply.
func (s *Store) putReply(ctx context.Context, it item) error {
	if it == nil {
		return nil
	}
	if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Tokens, Item: it}); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}

// dropReply deletes the reply that a token no longer has. That it fails changes nothing of the swap, which has been decided: what stays expires when its token would have.
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

// A stored token is one as it was read, and where the rest of it is.
type storedToken struct {
	record.Token
	reply string // the partition of the reply's item; empty where there is none
}

// replies are those of pending entries, by token.
type replies map[record.TokenKey]*record.Reply

// repliesIn gives the replies of groups that were just read: a duplicate of a message whose entry is still there need not read its reply again.
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

// item gives the item of a token's reply, if it is there: the item's name tells whether it is the very same.
func (r replies) item(t storedToken) item {
	t.Reply = r[t.Key]
	it, err := replyOf(&t.Token)
	if err != nil || it == nil || partitionOf(it) != t.reply {
		return nil
	}
	return it
}

// complete reads the replies that are kept apart and not at hand. missing lists the tokens whose replies are not there: they have been written anew since they were read.
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
		if !r.record(attrReply, func(d *stored.Decoder) { t.Reply = stored.ReadReply(d) }) {
			r.fail(attrReply, "is missing")
		}
		if r.err != nil {
			return nil, fmt.Errorf("reply of token %s: %w", t.Key, r.err)
		}
	}
	return missing, nil
}
