package batch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/effectively-once/once/internal/front/problem"
)

// maxWindow is the largest window of zstd that a receiver of HTTP has to support (RFC 9659). The
// decoder needs no memory for it beyond that of the content.
const maxWindow = 8 << 20

// A Decoder removes the compression of batches. The zero value is ready. It may be used
// concurrently.
type Decoder struct {
	once sync.Once
	zstd *zstd.Decoder
	err  error
}

// Decode returns the content of a compressed batch. encoding is the value of Content-Encoding. A
// content of more than [MaxBytes] is an error, found when so many bytes are there.
func (d *Decoder) Decode(encoding string, data []byte) ([]byte, error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return data, nil
	case "gzip", "x-gzip":
		return gunzip(data)
	case "zstd":
		return d.unzstd(data)
	}
	return nil, problem.New(problem.UnsupportedMediaType, "Content-Encoding must be gzip or zstd.")
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, corrupt("gzip")
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(io.LimitReader(r, MaxBytes+1)); err != nil {
		return nil, corrupt("gzip")
	}
	if out.Len() > MaxBytes {
		return nil, TooLarge()
	}
	return out.Bytes(), nil
}

// unzstd decodes into one buffer of at most [MaxBytes], whatever size or window a frame announces.
func (d *Decoder) unzstd(data []byte) ([]byte, error) {
	d.once.Do(func() {
		d.zstd, d.err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxBytes), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	})
	if d.err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", d.err)
	}
	out, err := d.zstd.DecodeAll(data, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, TooLarge()
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, problem.New(problem.TooLarge, fmt.Sprintf("The window of a zstd frame may have at most %d bytes (RFC 9659).", maxWindow))
	case err != nil:
		return nil, corrupt("zstd")
	}
	return out, nil
}

func corrupt(name string) error {
	return problem.New(problem.MalformedRequest, "The batch is not whole, or not "+name+". Nothing of it was accepted.")
}

// TooLarge returns the problem for a batch of more than [MaxBytes].
func TooLarge() *problem.Problem {
	return problem.New(problem.TooLarge, fmt.Sprintf("A batch may have at most %d bytes, and so may the content of a compressed one. Nothing of it was accepted.", MaxBytes))
}
