package sparse

import (
	"bytes"
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Checkpoint is what Fit and Refit know between two chunks of data. Written
// down by Options.Checkpoint, it lets Options.Resume go on from there, without
// linearizing the examples that the pass has behind it. Nothing of the
// training inputs is in it.
//
// The kernel of the inducing examples is computed again, and so are the sites
// of a refit, from its function values.
type Checkpoint struct {
	fitIdentity
	next   int         // the first example that is not in the sums
	sums   *Sums       // of the pass
	newton *refitState // of a refit
}

// Refit tells whether the checkpoint is of Refit rather than of Fit.
func (c *Checkpoint) Refit() bool { return c.refit }

// Step returns how many Newton steps were finished; it is 0 for Fit.
func (c *Checkpoint) Step() int {
	if c.newton == nil {
		return 0
	}
	return c.newton.step
}

// Examples returns how many examples the pass over the data has behind it,
// and how many there are. Equal, the pass is finished.
func (c *Checkpoint) Examples() (done, total int) { return c.next, c.n }

// ResumeError reports that a checkpoint is not of the fit that was to go on
// from it.
type ResumeError struct {
	What string // in which they differ
}

func (e *ResumeError) Error() string {
	return "sparse: the checkpoint and this fit differ in " + e.What + "; resume with what it was made from, or start anew without it"
}

// A binding is what a checkpoint belongs to.
type fitIdentity struct {
	spec      sumsSpec
	n         int
	refit     bool
	checksums [identityChecksums]checksum // of m at the inducing examples; of the sites' f, r and Λ, or of a refit's targets
}

const identityChecksums = 4

// bind returns what a pass over n examples, known by marks, belongs to.
func (b *basis) fitIdentity(o sumsSpec, n int, refit bool, marks ...checksum) fitIdentity {
	m := make([]float64, b.rows())
	b.k.MeanTo(m, b.z.Batch)
	to := fitIdentity{spec: o, n: n, refit: refit}
	copy(to.checksums[:], append([]checksum{checksumOf(m)}, marks...))
	return to
}

// check returns a *ResumeError where c does not belong to what is at hand.
func (c *Checkpoint) check(to fitIdentity) error {
	names := [identityChecksums]string{"their prior mean or network", "the function values of their sites", "the residuals of their sites", "the Λ of their sites"}
	if to.refit {
		names[1] = "their targets"
	}
	switch {
	case c.sums == nil:
		return errors.New("sparse: the checkpoint is empty; it must be written down before Options.Checkpoint returns")
	case c.refit != to.refit:
		return &ResumeError{What: "their kind: one is a refit, the other is not"}
	case c.n != to.n:
		return &ResumeError{What: fmt.Sprintf("their number of training examples, %d and %d", c.n, to.n)}
	}
	if what := c.spec.differs(to.spec); what != "" {
		return &ResumeError{What: what}
	}
	for i, m := range c.checksums {
		if !m.same(to.checksums[i]) {
			return &ResumeError{What: names[i]}
		}
	}
	return nil
}

// A mark tells numbers from others but for rounding, which another processor
// may change: a sum with fixed random weights, and one of sizes.
type checksum struct {
	sum, scale float64
}

// markRounding is the difference of two marks, relative to their scale, that
// rounding may make. A label among 10⁷ makes more.
const checksumRounding = 1e-9

func checksumOf(v []float64) checksum {
	var m checksum
	weights := rand.NewPCG(1, 1)
	for _, x := range v {
		m.sum += float64(int64(weights.Uint64())) * 0x1p-63 * x
		m.scale += math.Abs(x)
	}
	return m
}

func (m checksum) same(o checksum) bool {
	return math.Abs(m.sum-o.sum) <= checksumRounding*math.Max(m.scale, o.scale)
}

// marksOf returns the marks of the function values, residuals and Λ.
func checksumsOf(s sites.Flat) []checksum {
	return []checksum{checksumOf(s.F), checksumOf(s.R), checksumOf(s.Lambda)}
}

// A saver gives the state of passes over the data to Options.Checkpoint.
type checkpointer struct {
	call   func(*Checkpoint) error
	every  int // examples
	resume *Checkpoint
}

// defaultCheckpointChunks makes the default of Options.CheckpointEvery.
const defaultCheckpointChunks = 16

func newCheckpointer(o *Options, c int) checkpointer {
	s := checkpointer{call: o.Checkpoint, every: o.CheckpointEvery, resume: o.Resume}
	if s.every == 0 {
		s.every = defaultCheckpointChunks * linearize.Tile(c)
	}
	return s
}

// active tells whether checkpoints are written or read.
func (s *checkpointer) active() bool { return s.call != nil || s.resume != nil }

// give calls Options.Checkpoint. What c points to changes from then on, so
// that nothing is left in it.
func (s *checkpointer) write(c *Checkpoint) error {
	if c == nil {
		return nil
	}
	err := s.call(c)
	*c = Checkpoint{}
	return err
}

// whole returns the context of work that changes sums in place. Where the sums
// of an interrupted pass are handed out, such work runs to its end.
func (s *checkpointer) uninterrupted(ctx context.Context) context.Context {
	if s.call != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// eachPart passes over x from its example first on, which begins a chunk, as
// basis.eachPart does over all. state returns the checkpoint that has the
// examples before next behind it, or nil where there is nothing to go on from.
func (s *checkpointer) eachChunk(ctx context.Context, b *basis, x linearize.Source, o *Options, first int, do func(p chunk) error, state func(next int) *Checkpoint) error {
	n := x.Len()
	if first == n {
		return nil
	}
	shifted := *o
	shifted.Progress = func(stage string, done, total int) { o.Progress(stage, first+done, first+total) }
	done, saved := first, first
	err := b.eachChunk(ctx, linearize.From(x, first), &shifted, StageData, func(p chunk) error {
		p.first += first
		if err := do(p); err != nil {
			return err
		}
		done += p.x.Len()
		if s.call == nil || done < n && done-saved < s.every {
			return nil
		}
		saved = done
		return s.write(state(done))
	})
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || s.call == nil || done == saved {
		return err
	}
	if last := s.write(state(done)); last != nil {
		return errors.Join(err, last)
	}
	return err
}

// The binary form of a checkpoint, little-endian: magic and version; the
// header, uint64; the marks; the sums of the pass in their own form; of a
// refit its numbers, the sums that a step sets out from and its vectors; the
// CRC-32C of everything before.
const (
	checkpointMagic   = "fgpckpt\x00"
	checkpointVersion = 1
	checkpointHead    = 7 // kind, C, rank, approximation, N, next, step
	checkpointStart   = len(checkpointMagic) + 4 + 8*(checkpointHead+2*identityChecksums)
)

var (
	_ encoding.BinaryMarshaler   = (*Checkpoint)(nil)
	_ encoding.BinaryUnmarshaler = (*Checkpoint)(nil)
	_ io.WriterTo                = (*Checkpoint)(nil)
)

var errCheckpointSize = errors.New("sparse: the checkpoint has an impossible size")

// A checkpointLayout is what decides the sizes in a checkpoint.
type checkpointLayout struct {
	refit         bool
	kind          passKind
	fitc          bool
	c, rank       int
	n, next, step int
}

func (c *Checkpoint) layout() checkpointLayout {
	l := checkpointLayout{refit: c.refit, fitc: c.spec.fitc, c: c.spec.c, rank: c.spec.rank, n: c.n, next: c.next}
	if c.refit {
		l.kind, l.step = c.newton.kind, c.newton.step
	}
	return l
}

// head is the header: 0 stands for Fit, and 1 on for the passes of Refit.
func (l checkpointLayout) head() [checkpointHead]uint64 {
	h := [checkpointHead]uint64{1: uint64(l.c), uint64(l.rank), 0, uint64(l.n), uint64(l.next), uint64(l.step)}
	if l.refit {
		h[0] = 1 + uint64(l.kind)
	}
	if l.fitc {
		h[3] = 1
	}
	return h
}

// readLayout reads a header; ok is false where no checkpoint has it.
func readLayout(h [checkpointHead]uint64) (l checkpointLayout, ok bool) {
	for _, v := range h {
		if v > math.MaxInt32 {
			return l, false
		}
	}
	l = checkpointLayout{fitc: h[3] == 1, c: int(h[1]), rank: int(h[2]), n: int(h[4]), next: int(h[5]), step: int(h[6])}
	if h[0] > 0 {
		l.refit, l.kind = true, passKind(h[0]-1)
	}
	ok = l.kind <= atPoint && h[3] <= 1 && l.c > 0 && 0 < l.next && l.next <= l.n && (l.next == l.n || l.next%linearize.Tile(l.c) == 0) && (l.refit || l.step == 0)
	return l, ok
}

// vectors are the lengths of newton.vectors.
func (l checkpointLayout) vectors() []int64 {
	if !l.refit {
		return nil
	}
	all, passed := memory.Mul(int64(l.n), int64(l.c)), memory.Mul(int64(l.next), int64(l.c))
	known, marked, to := all, l.n, passed // m, its chunks, and the pass's own point
	switch l.kind {
	case atTheta:
		known, marked = passed, l.next
	case atPoint:
		to = all
	}
	v := []int64{known, 2 * int64(chunkCount(marked, l.c)), 0, int64(l.rank), to, to, 0, 0, 0, 0, 0}
	if l.kind == stepping {
		v[7], v[8], v[9] = int64(l.rank), all, all
	}
	if l.fitc {
		v[6] = to
	}
	if l.fitc && l.kind == stepping {
		v[2], v[10] = passed, all
	}
	return v
}

// size returns the length of the binary form.
func (l checkpointLayout) size() int64 {
	size := memory.Add(int64(checkpointStart)+4, sumsSize(l.rank))
	if l.refit {
		size = memory.Add(size, 8*newtonNumbers)
	}
	if l.kind == stepping {
		size = memory.Add(size, sumsSize(l.rank))
	}
	for _, n := range l.vectors() {
		size = memory.Add(size, memory.Mul(8, n))
	}
	return size
}

// WriteTo writes the checkpoint with a version and a CRC-32C: MarshalBinary
// without holding all of it in memory. The file is not for readers of another
// version.
func (c *Checkpoint) WriteTo(w io.Writer) (int64, error) {
	if c.sums == nil {
		return 0, errors.New("sparse: there is nothing in the checkpoint to write")
	}
	e := &checksumWriter{w: w}
	e.write([]byte(checkpointMagic))
	e.write(binary.LittleEndian.AppendUint32(nil, checkpointVersion))
	for _, v := range c.layout().head() {
		e.write(binary.LittleEndian.AppendUint64(nil, v))
	}
	for _, m := range c.checksums {
		e.floats(m.sum, m.scale)
	}
	e.sums(c.sums)
	if s := c.newton; s != nil {
		for _, v := range s.numbers() {
			e.floats(*v)
		}
		if s.kind == stepping {
			e.sums(s.sums)
		}
		for _, v := range s.vectors() {
			e.floats(*v...)
		}
	}
	return e.finish()
}

// MarshalBinary returns what WriteTo writes.
func (c *Checkpoint) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	if c.sums != nil {
		b.Grow(int(c.layout().size()))
	}
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}

// UnmarshalBinary reads a checkpoint. Data that are cut short, changed or of
// another version are an error, and c is then unchanged.
func (c *Checkpoint) UnmarshalBinary(data []byte) error {
	if len(data) < checkpointStart+4 || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return errors.New("sparse: this is no checkpoint")
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("sparse: the checkpoint is damaged: its checksum is wrong; use the one before it, or start anew")
	}
	body = body[len(checkpointMagic):]
	if v := binary.LittleEndian.Uint32(body); v != checkpointVersion {
		return fmt.Errorf("sparse: a checkpoint of version %d; this program reads version %d; start anew", v, checkpointVersion)
	}
	body = body[4:]
	var head [checkpointHead]uint64
	for i := range head {
		head[i], body = binary.LittleEndian.Uint64(body), body[8:]
	}
	l, ok := readLayout(head)
	if !ok || int64(len(data)) != l.size() {
		return errCheckpointSize
	}
	t, err := l.read(body)
	if err != nil {
		return err
	}
	*c = *t
	return nil
}

// read reads what follows the header; all sizes are right.
func (l checkpointLayout) read(body []byte) (*Checkpoint, error) {
	t := &Checkpoint{fitIdentity: fitIdentity{n: l.n, refit: l.refit}, next: l.next}
	r := floatReader(body)
	for i := range t.checksums {
		t.checksums[i] = checksum{r.next(), r.next()}
	}
	var err error
	if t.sums, err = l.sums(&r); err != nil {
		return nil, err
	}
	t.spec = t.sums.spec
	if l.refit {
		if t.newton, err = l.newton(&r); err != nil {
			return nil, err
		}
	}
	if !t.consistent(l) {
		return nil, errCheckpointSize
	}
	return t, nil
}

func (l checkpointLayout) sums(r *floatReader) (*Sums, error) {
	size, s := sumsSize(l.rank), new(Sums)
	data := (*r)[:size]
	*r = (*r)[size:]
	return s, s.UnmarshalBinary(data)
}

func (l checkpointLayout) newton(r *floatReader) (*refitState, error) {
	s := &refitState{kind: l.kind, step: l.step}
	for _, v := range s.numbers() {
		*v = r.next()
	}
	if l.kind == stepping {
		var err error
		if s.sums, err = l.sums(r); err != nil {
			return nil, err
		}
	}
	vectors := s.vectors()
	for i, n := range l.vectors() {
		v := make([]float64, n)
		for j := range v {
			v[j] = r.next()
		}
		*vectors[i] = v
	}
	return s, nil
}

// consistent tells whether the sums are those of the header.
func (c *Checkpoint) consistent(l checkpointLayout) bool {
	o := c.spec
	if o.c != l.c || o.rank != l.rank || o.fitc != l.fitc {
		return false
	}
	if l.kind == stepping {
		// Past an example without finite sites a step sums nothing.
		s := c.newton.sums
		return c.sums.n <= c.next && s.n == c.n && s.spec == o
	}
	return c.sums.n == c.next
}

// A sealer writes bytes and numbers, and the CRC-32C of them.
type checksumWriter struct {
	w   io.Writer
	buf []byte
	crc uint32
	n   int64
	err error
}

const checksumWriterBytes = 64 << 10

func (s *checksumWriter) write(b []byte) {
	s.buf = append(s.buf, b...)
	s.flush(checksumWriterBytes)
}

func (s *checksumWriter) floats(v ...float64) {
	for _, x := range v {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, math.Float64bits(x))
		s.flush(checksumWriterBytes)
	}
}

func (s *checksumWriter) sums(t *Sums) {
	b, err := t.MarshalBinary()
	if s.err == nil {
		s.err = err
	}
	s.flush(0)
	s.buf = b // written as it is
	s.flush(0)
	s.buf = nil
}

// flush writes what is there, if it is at least so many bytes.
func (s *checksumWriter) flush(bytes int) {
	if s.err != nil {
		s.buf = nil
	}
	if len(s.buf) < bytes || s.err != nil {
		return
	}
	s.crc = crc32.Update(s.crc, castagnoli, s.buf)
	n, err := s.w.Write(s.buf)
	s.n, s.err, s.buf = s.n+int64(n), err, s.buf[:0]
}

// seal writes the checksum and returns how much was written.
func (s *checksumWriter) finish() (int64, error) {
	s.flush(0)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, s.crc)
	s.flush(0)
	return s.n, s.err
}
