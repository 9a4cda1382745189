package dataset

import (
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
)

// fetcher downloads files from mirrors. A download is written to NAME.part, which
// is renamed when its checksum is right, so that a file called NAME is complete.
// Two processes may fetch the same file: they write the same bytes, and the
// checksum finds any difference.
type fetcher struct {
	client   *http.Client
	mirrors  []string          // base URLs, tried in order
	sums     map[string]string // MD5 in hex by file name
	timeout  time.Duration     // longest wait without a byte
	pause    time.Duration     // before the second try; doubles
	most     int64             // largest file in bytes
	progress func(stage string, done, total int)
}

// tries is how often a file is requested from one mirror.
const tries = 3

// Errors that decide what is tried next.
var (
	errStalled = errors.New("the server sent nothing for too long")
	errLocal   = errors.New("the file cannot be written")  // no mirror helps
	errRefused = errors.New("the server refused the file") // this mirror does not help
	errSum     = errors.New("wrong checksum")              // a clean start may help
)

// fetch downloads dir/name. A mirror is tried a few times, of which each continues the one before. The
// error names every mirror that was tried.
func (f *fetcher) fetch(ctx context.Context, dir, name, sum string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	var failures []string
	for _, base := range f.mirrors {
		url, pause := strings.TrimSuffix(base, "/")+"/"+name, f.pause
		for try := 1; ; try++ {
			err := f.once(ctx, url, dir, name, sum)
			if err == nil || ctx.Err() != nil || errors.Is(err, errLocal) {
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

// once makes one request and renames the file if it is complete and right.
func (f *fetcher) once(ctx context.Context, url, dir, name, sum string) (err error) {
	path := filepath.Join(dir, name)
	part, err := os.OpenFile(path+".part", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	open := true
	defer func() {
		if open {
			part.Close()
		}
	}()
	if err := f.fill(ctx, part, url, name); err != nil {
		return err
	}
	h := md5.New()
	if _, err = part.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(h, part)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		// The next try must not continue from wrong bytes.
		return errors.Join(fmt.Errorf("%w: MD5 %s, want %s", errSum, got, sum), part.Truncate(0))
	}
	open = false
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	return nil
}

// fill requests the bytes that part does not have yet and appends them. A server
// without range requests sends the whole file, which replaces the part.
func (f *fetcher) fill(ctx context.Context, part *os.File, url, name string) error {
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(f.timeout, func() { cancel(errStalled) })
	defer watch.Stop()
	body, start, total, err := f.request(ctx, url, have)
	if err != nil {
		return stalled(ctx, err)
	}
	defer body.Close()
	if start == 0 {
		err = part.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	buf := make([]byte, 1<<16)
	for done := start; ; {
		n, err := body.Read(buf)
		watch.Reset(f.timeout)
		if done+int64(n) > f.most {
			return errors.Join(errRefused, part.Truncate(0), fmt.Errorf("the file is larger than %d bytes", f.most))
		}
		if _, err := part.WriteAt(buf[:n], done); err != nil {
			return fmt.Errorf("%w: %w", errLocal, err)
		}
		done += int64(n)
		f.progress("downloading "+name, int(done), int(max(0, total)))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return stalled(ctx, fmt.Errorf("broke off after %d bytes: %w", done, err))
		}
	}
}

// stalled returns errStalled if that is why the request was cancelled, and
// otherwise err.
func stalled(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStalled {
		return errStalled
	}
	return err
}

// request gets the bytes of url from have on. start is the offset of the body,
// have or 0; total is the size of the file, or -1.
func (f *fetcher) request(ctx context.Context, url string, have int64) (body io.ReadCloser, start, total int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	// The files are compressed; their bytes must come as they are.
	req.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, 0, 0, err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return resp.Body, 0, resp.ContentLength, nil
	case resp.StatusCode == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		if resp.ContentLength >= 0 {
			return resp.Body, have, have + resp.ContentLength, nil
		}
		return resp.Body, have, -1, nil
	}
	resp.Body.Close()
	if have > 0 && (resp.StatusCode == http.StatusRequestedRangeNotSatisfiable || resp.StatusCode == http.StatusPartialContent) {
		return f.request(ctx, url, 0) // the part is not the beginning of this file
	}
	if resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		return nil, 0, 0, fmt.Errorf("%w: %s", errRefused, resp.Status)
	}
	return nil, 0, 0, fmt.Errorf("the server answered %s", resp.Status)
}
