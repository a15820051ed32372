package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// IssueEpoch asks the server for an epoch of a source in a group; an empty group is the source. No
// other call gets the same epoch, and from then on the messages of the source's earlier epochs are
// refused with a [*Problem] of type [Fenced]. Number the messages from 1 under it. The stream has
// to be numbered. A [Sender] does this by itself.
func (c *Client) IssueEpoch(ctx context.Context, stream, group, source string) (uint64, error) {
	if stream == "" || source == "" {
		return 0, errors.New("issue epoch: stream and source must not be empty")
	}
	// It names the newest epoch that it knows, so that a try that arrives late has no effect.
	for after := uint64(0); ; {
		epoch, err := c.epochAfter(ctx, c.at("streams", stream, "epochs", source), group, after)
		p, refused := errors.AsType[*Problem](err)
		switch {
		case err == nil:
			return epoch, nil
		case !refused || p.Type != Fenced || p.Epoch == after:
			return 0, fmt.Errorf("issue epoch: %w", err)
		}
		after = p.Epoch
	}
}

func (c *Client) epochAfter(ctx context.Context, at, group string, after uint64) (uint64, error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}}
	if group != "" {
		query.Set("group", group)
	}
	return call(ctx, c, request{method: http.MethodPost, url: at + "?" + query.Encode()}, func(a answer) (uint64, *Problem) {
		var issued struct {
			Epoch uint64 `json:"epoch"`
		}
		if a.status != http.StatusOK || json.Unmarshal(a.body, &issued) != nil || issued.Epoch == 0 {
			return 0, problemOf(a)
		}
		return issued.Epoch, nil
	})
}
