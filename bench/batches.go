package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// sendBatches sends messages as JSON lines, many in one request. Every result must be 202.
func (c client) sendBatches(ctx context.Context, web *http.Client, body []byte, round int64) (load, error) {
	return hammer(ctx, c.Connections, c.Time, func(ctx context.Context, caller int, i uint64) (int, error) {
		var lines bytes.Buffer
		lines.Grow(c.Batch * (len(body) + 64))
		for n := range c.Batch {
			lines.WriteString(`{"key":"`)
			lines.WriteString(strconv.FormatInt(round, 36) + "-" + strconv.Itoa(caller) + "-" + strconv.FormatUint(i, 10) + "-" + strconv.Itoa(n))
			lines.WriteString(`","body":`)
			lines.Write(body)
			lines.WriteString("}\n")
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, &lines)
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		response, err := web.Do(r)
		if err != nil {
			return 0, err
		}
		answer, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return 0, err
		}
		if n := bytes.Count(answer, []byte(`"status":202`)); n != c.Batch {
			return 0, fmt.Errorf("%s: %d of %d messages accepted: %.300s", response.Status, n, c.Batch, answer)
		}
		return c.Batch, nil
	})
}
