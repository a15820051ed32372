package powertools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// Attributes are the names of the attributes of a table. Empty fields are the names that Powertools
// uses by default.
type Attributes struct {
	// Key has the key. In a table with a sort key, that is the sort key.
	Key                    string // id
	Status, Expiry         string // status, expiration
	InProgressExpiry, Data string // in_progress_expiration, data
}

// The states of a record.
const (
	completed  = "COMPLETED"
	inProgress = "INPROGRESS"
)

// A stored record is one of Powertools.
type stored struct {
	key, status string
	expires     time.Time
	// lease is when an execution in progress has ended for sure; zero if it is not known.
	lease time.Time
	data  types.AttributeValue
}

func (a Attributes) read(item map[string]types.AttributeValue) (s stored, err error) {
	key, keyed := item[a.Key].(*types.AttributeValueMemberS)
	status, known := item[a.Status].(*types.AttributeValueMemberS)
	if keyed {
		s.key = key.Value
	}
	switch {
	case !keyed:
		return s, fmt.Errorf("it has no text %q", a.Key)
	case !known || status.Value != completed && status.Value != inProgress:
		return s, fmt.Errorf("its %q is neither %s nor %s", a.Status, completed, inProgress)
	}
	s.status, s.data = status.Value, item[a.Data]
	if s.expires, err = instant(item[a.Expiry], time.Second); err == nil && s.expires.IsZero() {
		err = errors.New("it is missing")
	}
	if err != nil {
		return s, fmt.Errorf("its %q: %w", a.Expiry, err)
	}
	if s.lease, err = instant(item[a.InProgressExpiry], time.Millisecond); err != nil {
		return s, fmt.Errorf("its %q: %w", a.InProgressExpiry, err)
	}
	return s, nil
}

// instant reads a time in units since 1970; zero if there is none.
func instant(v types.AttributeValue, unit time.Duration) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return time.Time{}, errors.New("it is no number")
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || x < 0 || x > float64(1<<62)/float64(unit) {
		return time.Time{}, fmt.Errorf("%s is no time", n.Value)
	}
	return time.Unix(0, int64(x)*int64(unit)).UTC(), nil
}

// owner is that of every token that is made from a record of Powertools.
const owner = "powertools"

// token returns the token of a record, without its key. It is absent if the record stops nobody:
// because it has expired, or its execution has ended without a result.
func (s *stored) token(l Language, as Reply, now time.Time) (record.Token, error) {
	t := record.Token{Owner: owner, Epoch: 1, Expires: s.expires}
	switch {
	case !s.expires.After(now):
		return record.Token{}, nil
	case s.status == inProgress:
		t.State, t.Lease = record.Leased, s.lease
		// Without a time, Powertools waits until the record expires.
		if s.lease.IsZero() || s.lease.After(s.expires) {
			t.Lease = s.expires
		}
		if !t.Lease.After(now) {
			return record.Token{}, nil
		}
		return t, nil
	}
	reply, err := replyOf(l, as, s.data)
	if err != nil {
		return record.Token{}, fmt.Errorf("its result: %w", err)
	}
	t.State, t.Reply = record.Done, reply
	return t, nil
}

// resultOf returns the JSON of a result. Python and Java store it as a text, TypeScript as values
// of DynamoDB.
func resultOf(l Language, v types.AttributeValue) ([]byte, error) {
	if v == nil {
		return nil, nil // the function has returned nothing
	}
	if s, ok := v.(*types.AttributeValueMemberS); ok && l != TypeScript {
		if json.Valid([]byte(s.Value)) {
			return []byte(s.Value), nil
		}
		if l == Java { // a string that a function has returned is stored as it is
			return encode1(s.Value)
		}
		return nil, errors.New("it is no JSON")
	}
	x, err := plain(v)
	if err != nil {
		return nil, err
	}
	return encode1(x)
}

// plain returns a value of DynamoDB as one that json encodes.
func plain(v types.AttributeValue) (any, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, nil
	case *types.AttributeValueMemberN:
		return json.Number(v.Value), nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberB:
		return v.Value, nil // base64
	case *types.AttributeValueMemberSS:
		return v.Value, nil
	case *types.AttributeValueMemberL:
		out := make([]any, len(v.Value))
		for i, item := range v.Value {
			x, err := plain(item)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case *types.AttributeValueMemberM:
		out := make(map[string]any, len(v.Value))
		for name, item := range v.Value {
			x, err := plain(item)
			if err != nil {
				return nil, err
			}
			out[name] = x
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of the kind %T has no form in JSON", v)
}
