package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/picture"
)

// An input is the single row that a request asks about, with its description for the answer.
type input struct {
	subject
	rows *funcgp.Rows // exactly one row
}

// decodeBytes bounds the memory that decoding a picture or a table may take. A picture of this size
// has 4 million pixels.
const decodeBytes = 64 << 20

// input reads the input that a request asks about, and stores its rows in r.scored.
func (s *service) input(ctx context.Context, r *request) (in *input, err error) {
	switch {
	case r.inputs() != 1:
		return nil, refusef(unprocessable, "no_input", "the request names %d inputs; give one of row, values, picture and table", r.inputs())
	case r.Top != nil && (*r.Top < 1 || *r.Top > mostTerms):
		return nil, refusef(unprocessable, "bad_top", "{top} %d must be from 1 to %d", *r.Top, mostTerms)
	case r.Picture == nil && (r.Fit != "" || r.Invert != ""):
		return nil, refusef(unprocessable, "contradiction", "{fit} and {invert} are for a picture; leave them out")
	case !slices.Contains([]string{"", "frame", "ink"}, r.Fit):
		return nil, refusef(unprocessable, "bad_fit", "{fit} %q must be frame or ink", r.Fit)
	case !slices.Contains([]string{"", "auto", "yes", "no"}, r.Invert):
		return nil, refusef(unprocessable, "bad_invert", "{invert} %q must be auto, yes or no", r.Invert)
	case r.Fit == "ink" && r.Invert != "":
		return nil, refusef(unprocessable, "contradiction", "{invert} is for {fit=frame}: ink is found whether it is light or dark; leave one of them out")
	case r.Rows != nil || r.Array != nil:
		var rows *funcgp.Rows
		rows, err = s.several(ctx, r, decodeBytes)
		in, err = s.one(ctx, "rows", rows, err)
	case r.Row != nil:
		in, err = s.testRow(ctx, *r.Row)
	case r.Values != nil:
		in, err = s.values(ctx, r.Values)
	case r.Table != nil:
		in, err = s.table(ctx, *r.Table)
	default:
		in, err = s.picture(ctx, r)
	}
	if err == nil {
		r.scored = in.rows
	}
	return in, err
}

// testRow returns the input that is a row of the test data.
func (s *service) testRow(ctx context.Context, row int) (*input, error) {
	rows, err := s.front.TestRows(ctx, row)
	if err != nil {
		return nil, refuse(unprocessable, "bad_row", err)
	}
	in := &input{rows: rows, subject: subject{Split: rows.Part(), NamedRow: rows.Named(0)}}
	return in, s.show(ctx, in)
}

// values returns the input that is given as numbers.
func (s *service) values(ctx context.Context, list []float64) (*input, error) {
	if want := s.elements(); len(list) != want {
		return nil, refusef(unprocessable, "bad_values", "{values}: %d numbers, but an input has %d (shape %v)", len(list), want, s.info.InputShape)
	}
	rows, err := s.numbers(ctx, mat.NewDense(1, len(list), list))
	return s.one(ctx, "values", rows, err)
}

// several returns the rows of a request, given as numbers in JSON or as a .npy file. The file may take at most that
// many bytes.
func (s *service) several(ctx context.Context, r *request, most int64) (*funcgp.Rows, error) {
	if r.Rows != nil {
		return s.numbers(ctx, r.Rows)
	}
	return s.file(ctx, r.Array, "", most)
}

// table returns the input that is given as a CSV file.
func (s *service) table(ctx context.Context, text string) (*input, error) {
	file := []byte(text)
	if bytes.IndexByte(file, 0) >= 0 || bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		return nil, refusef(unprocessable, "bad_table", "{table}: it is no text; send the rows uncompressed, or a picture")
	}
	// Allow one row and its header, with room for unused columns and decimal commas.
	most, cells := 8*(s.elements()+1000), 1
	for _, end := range []string{",", ";", "\t", "\n"} {
		cells += strings.Count(text, end)
	}
	if cells > most {
		return nil, refusef(unprocessable, "bad_table", "{table}: %d cells, more than the %d that one row may have; send one row", cells, most)
	}
	rows, err := s.file(ctx, file, "", decodeBytes)
	return s.one(ctx, "table", rows, err)
}

// picture returns the input that is given as a PNG or JPEG file.
func (s *service) picture(ctx context.Context, r *request) (*input, error) {
	if !picture.Is(r.Picture) {
		return nil, refusef(unprocessable, "bad_picture", "{picture}: it is neither PNG nor JPEG")
	}
	if r.Fit != "ink" {
		rows, err := s.file(ctx, r.Picture, strings.TrimPrefix(r.Invert, "auto"), decodeBytes)
		return s.one(ctx, "picture", rows, err)
	}
	side, err := s.drawn()
	if err != nil {
		return nil, err
	}
	p, err := picture.Decode(bytes.NewReader(r.Picture), decodeBytes)
	if err != nil {
		return nil, refusef(unprocessable, "bad_picture", "{picture}: %w; send a smaller PNG or JPEG", err)
	}
	img, err := centred(p.Image, side, s.dark)
	if err != nil {
		if !errors.Is(err, picture.ErrBlank) {
			return nil, refusef(unprocessable, "bad_picture", "{picture}: %w", err)
		}
		return nil, refusef(unprocessable, "blank", "{picture}: %w; draw something", err)
	}
	rows, err := s.front.Picture(ctx, img, &funcgp.ReadOptions{Name: theInput, Invert: "no"})
	in, err := s.one(ctx, "picture", rows, err)
	if err == nil {
		in.Notes = append(slices.Clone(p.Notes), inkNote(side))
	}
	return in, err
}

// drawn returns the side of the pictures that may be drawn, or an error if inputs are not square grey pictures.
func (s *service) drawn() (int, error) {
	shape := s.info.InputShape
	n := len(shape)
	if s.info.Columns != nil || n < 2 || shape[n-1] != shape[n-2] || s.elements() != shape[n-1]*shape[n-1] {
		return 0, refusef(unprocessable, "bad_fit", "{fit=ink} is for square grey pictures, but inputs have shape %v; give {fit=frame}", shape)
	}
	return shape[n-1], nil
}

// elements returns the number of elements of an input.
func (s *service) elements() int {
	n := 1
	for _, d := range s.info.InputShape {
		n *= d
	}
	return n
}

// theInput is the name of a request's input in messages.
const theInput = "the input"

// numbers returns rows that are given as numbers in JSON. Grey levels must be whole numbers from 0 to 255.
func (s *service) numbers(ctx context.Context, x *mat.Dense) (*funcgp.Rows, error) {
	if s.front.GreyLevels() {
		for i := range x.RawMatrix().Rows {
			for k, v := range x.RawRowView(i) {
				if v < 0 || v > 255 || v != math.Trunc(v) {
					return nil, fmt.Errorf("%s: row %d, column %d: %v is not a grey level; give whole numbers from 0 to 255", theInput, i, k+1, v)
				}
			}
		}
	}
	rows, err := s.front.Rows(ctx, x)
	if err != nil {
		return nil, err
	}
	return rows.Called(theInput), nil
}

// file reads rows from a picture, table or array. It takes at most most bytes of memory.
func (s *service) file(ctx context.Context, file []byte, invert string, most int64) (*funcgp.Rows, error) {
	return s.front.Read(ctx, bytes.NewReader(file), &funcgp.ReadOptions{Name: theInput, Invert: invert, MaxBytes: most})
}

// badInput returns the refusal for an error in the rows of a member of the request; err may be nil.
func badInput(member string, err error) error {
	if err == nil || interrupted(err) {
		return err
	}
	bad := refuse(unprocessable, "bad_input", err)
	bad.Field = member
	return bad
}

// one returns the input for rows, which a member of the request gave and which must be a single row. err is the
// error with which they were read.
func (s *service) one(ctx context.Context, member string, rows *funcgp.Rows, err error) (*input, error) {
	if err != nil {
		return nil, badInput(member, err)
	}
	if n := rows.Len(); n != 1 {
		return nil, refusef(unprocessable, "bad_"+member, "%s: %d rows; send one", option.Named(member), n)
	}
	in := &input{rows: rows, subject: subject{Split: "request", NamedRow: result.NamedRow{Index: -1, Label: result.Undefined()}}}
	for _, note := range rows.Notes() {
		in.Notes = append(in.Notes, strings.TrimPrefix(note, theInput+": "))
	}
	return in, s.show(ctx, in)
}

// show fills in the picture or the feature values of an input.
func (s *service) show(ctx context.Context, in *input) error {
	p, err := in.rows.Shown(ctx, 0)
	if err != nil {
		return err
	}
	if p.Image == nil {
		in.Values = result.Floats(p.Values)
		return nil
	}
	file, err := pngOf(p)
	in.Picture = "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
	return err
}

// A pngFile is a picture as a PNG file.
type pngFile []byte

func pngOf(p result.Picture) (pngFile, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, p.Image); err != nil {
		return nil, fmt.Errorf("serve: encoding a picture: %w", err)
	}
	return b.Bytes(), nil
}

// removed refuses training rows that a request cannot leave out.
func (s *service) removed(rows []int) error {
	if len(rows) > mostRemoved {
		return refusef(unprocessable, "bad_without", "{without}: %d rows; take out at most %d at a time", len(rows), mostRemoved)
	}
	seen := map[int]bool{}
	for _, row := range rows {
		switch _, ok := s.position[row]; {
		case !ok:
			return refusef(unprocessable, "bad_without", "{without}: row %d is none of the %s training rows", row, job.Count(len(s.position)))
		case seen[row]:
			return refusef(unprocessable, "bad_without", "{without}: row %d is listed twice", row)
		}
		seen[row] = true
	}
	if len(seen) == len(s.position) {
		return refusef(unprocessable, "bad_without", "{without}: these are all training rows; leave one in")
	}
	return nil
}
