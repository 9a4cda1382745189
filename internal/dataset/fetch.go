package dataset

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// fetcher downloads files from mirrors. A file is written only after its checksum was verified, so that
// an existing file is complete.
type fetcher struct {
	mirrors  []string                            // base URLs, tried in order
	sums     map[string]string                   // MD5 in hex by file name
	timeout  time.Duration                       // longest wait without a byte
	pause    time.Duration                       // wait before the second try; it doubles with each try
	most     int64                               // largest file in bytes
	progress func(stage string, done, total int) // nil for none
}

// tries is the number of requests for a file to one mirror.
const tries = 3

// These errors decide whether another try or another mirror follows.
var (
	errStalled = errors.New("the server sent nothing for too long")
	errLocal   = errors.New("the file cannot be written")  // no mirror helps
	errRefused = errors.New("the server refused the file") // this mirror does not help
	errSum     = errors.New("wrong checksum")              // another try may help
)

// fetch downloads the file name into the folder dir, where it is stored decompressed and without .gz. Each mirror
// is tried several times. The error names every mirror that was tried.
func (f *fetcher) fetch(ctx context.Context, dir, name, sum string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	var failures []string
	for _, base := range f.mirrors {
		url, pause := strings.TrimSuffix(base, "/")+"/"+name, f.pause
		for try := 1; ; try++ {
			data, err := f.get(ctx, url, name)
			if got := md5.Sum(data); err == nil && hex.EncodeToString(got[:]) != sum {
				err = fmt.Errorf("%w: MD5 %x, want %s", errSum, got, sum)
			}
			if err == nil {
				if err := atomicfile.Write(filepath.Join(dir, strings.TrimSuffix(name, ".gz")), func(w io.Writer) error {
					r, err := unzipped(bytes.NewReader(data))
					if err == nil {
						_, err = io.Copy(w, r)
					}
					return err
				}); err != nil {
					return fmt.Errorf("%w: %w", errLocal, err)
				}
				return nil
			}
			if ctx.Err() != nil {
				return err
			}
			if errors.Is(err, errRefused) || try == tries {
				failures = append(failures, fmt.Sprintf("%s: %v", url, err))
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
				pause *= 2
			}
		}
	}
	return errors.New(strings.Join(failures, "; "))
}

// get makes one request and returns the file.
func (f *fetcher) get(ctx context.Context, url, name string) (data []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(f.timeout, func() { cancel(errStalled) })
	defer watch.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == errStalled {
			err = errStalled
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	// The files are gzipped; ask for their bytes without another encoding.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %s", errRefused, resp.Status)
	case code != http.StatusOK:
		return nil, fmt.Errorf("the server answered %s", resp.Status)
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := resp.Body.Read(buf)
		watch.Reset(f.timeout)
		data = append(data, buf[:n]...)
		if int64(len(data)) > f.most {
			return nil, fmt.Errorf("%w: the file is larger than %d bytes", errRefused, f.most)
		}
		if f.progress != nil {
			f.progress("downloading "+name, len(data), int(max(0, resp.ContentLength)))
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, fmt.Errorf("broke off after %d bytes: %w", len(data), err)
		}
	}
}
