package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/picture"
	"github.com/funcgp/funcgp/internal/problem"
)

// An input is what a request asks about.
type input struct {
	subject
	rows  *dataset.Subset // one
	names problem.RowNames
}

// explain says what went wrong with the numbers of an input. The error of a context stays
// as it is.
func (in *input) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || interrupted(err) {
		return err
	}
	return refuse(422, "not_computable", in.names.ExplainError(err))
}

// decodeBytes bounds the memory that decoding a picture or a table may take; a picture
// of so many bytes has 4 million pixels.
const decodeBytes = 64 << 20

// input reads what a request asks about, and remembers it there.
func (s *service) input(ctx context.Context, r *request) (in *input, err error) {
	switch {
	case r.inputs() != 1:
		return nil, refusef(422, "no_input", "the request names %d inputs; give one of row, values, picture and table", r.inputs())
	case r.Top != nil && (*r.Top < 1 || *r.Top > mostTerms):
		return nil, refusef(422, "bad_top", "top %d must be from 1 to %d", *r.Top, mostTerms)
	case r.Picture == nil && (r.Fit != "" || r.Invert != ""):
		return nil, refusef(422, "contradiction", "fit and invert are for a picture; leave them out")
	case !slices.Contains([]string{"", "frame", "ink"}, r.Fit):
		return nil, refusef(422, "bad_fit", "fit %q must be frame or ink", r.Fit)
	case !slices.Contains([]string{"", "auto", "yes", "no"}, r.Invert):
		return nil, refusef(422, "bad_invert", "invert %q must be auto, yes or no", r.Invert)
	case r.Fit == "ink" && r.Invert != "":
		return nil, refusef(422, "contradiction", "invert is for the fit frame: ink is found whether it is light or dark; leave one of them out")
	case r.Rows != nil:
		in, err = s.read(ctx, r.Rows, picture.Auto, "rows")
	case r.Row != nil:
		in, err = s.testRow(ctx, *r.Row)
	case r.Values != nil:
		in, err = s.values(ctx, r.Values)
	case r.Table != nil:
		in, err = s.read(ctx, []byte(*r.Table), picture.Auto, "table")
	default:
		in, err = s.picture(ctx, r)
	}
	if err == nil {
		r.scored = in.rows
	}
	return in, err
}

// testRow is a row of the test data.
func (s *service) testRow(ctx context.Context, row int) (*input, error) {
	e := s.problem.Examples
	rows, err := e.Test(dataset.SelectOptions{Rows: []int{row}, From: "row"})
	if err != nil {
		return nil, refuse(422, "bad_row", err)
	}
	in := &input{rows: rows, names: problem.NamesOf(rows, 0, 1)}
	in.subject = subject{Split: rows.Set.Part, NamedRow: s.named(rows, 0)}
	return in, s.show(ctx, in, rows)
}

// named names row i of a subset.
func (s *service) named(rows *dataset.Subset, i int) result.NamedRow {
	return result.NamedRow{Index: result.Index(rows.Rows[i]), Label: result.Float(problem.Label(rows, i)), LabelName: s.problem.LabelName(rows, i), ID: problem.IDOf(rows, i)}
}

// values is an input given as numbers, as a line of a table.
func (s *service) values(ctx context.Context, list []*float64) (*input, error) {
	if want := problem.Elements(s.problem.Examples.Data.Shape); len(list) != want {
		return nil, refusef(422, "bad_values", "values: %d numbers, but an input has %d (shape %v)", len(list), want, s.problem.Examples.Data.Shape)
	}
	var line []byte
	for j, v := range list {
		if v == nil {
			return nil, refusef(422, "bad_values", "values: number %d is null; give a number", j)
		}
		if j > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendFloat(line, *v, 'g', -1, 64)
	}
	return s.read(ctx, append(line, '\n'), picture.Auto, "values")
}

// picture is an input given as a PNG or JPEG file.
func (s *service) picture(ctx context.Context, r *request) (*input, error) {
	if !picture.Is(r.Picture) {
		return nil, refusef(422, "bad_picture", "picture: it is neither PNG nor JPEG")
	}
	if r.Fit != "ink" {
		return s.read(ctx, r.Picture, map[string]picture.Choice{"yes": picture.Yes, "no": picture.No}[r.Invert], "picture")
	}
	side, err := s.drawn()
	if err != nil {
		return nil, err
	}
	p, err := picture.Decode(bytes.NewReader(r.Picture), decodeBytes)
	if err != nil {
		return nil, refusef(422, "bad_picture", "picture: %w; send a smaller PNG or JPEG", err)
	}
	dark, err := s.problem.Examples.Data.Dark(ctx)
	if err != nil {
		return nil, err
	}
	img, err := centred(p.Image, side, dark)
	if err != nil {
		if !errors.Is(err, picture.ErrBlank) {
			return nil, refusef(422, "bad_picture", "picture: %w", err)
		}
		return nil, refusef(422, "blank", "picture: %w; draw something", err)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		return nil, err
	}
	in, err := s.read(ctx, file.Bytes(), picture.No, "picture")
	if err == nil {
		in.Notes = append(slices.Clone(p.Notes), inkNote(side))
	}
	return in, err
}

// drawn is the side of the square grey pictures that may be drawn.
func (s *service) drawn() (int, error) {
	d := s.problem.Examples.Data
	n := len(d.Shape)
	if !d.Images() || n < 2 || d.Shape[n-1] != d.Shape[n-2] || problem.Elements(d.Shape) != d.Shape[n-1]*d.Shape[n-1] {
		return 0, refusef(422, "bad_fit", "fit ink is for square grey pictures, but inputs have shape %v; give the fit frame", d.Shape)
	}
	return d.Shape[n-1], nil
}

// theInput is what messages call the input of a request.
const theInput = "the input"

// read reads one row from the picture, table or array of a member of the request.
func (s *service) read(ctx context.Context, file []byte, invert picture.Choice, member string) (*input, error) {
	text := !picture.Is(file) && !npy.Is(file)
	if text && bytes.IndexByte(file, 0) >= 0 || bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		return nil, refusef(422, "bad_table", "table: it is no text; send the rows uncompressed, or a picture")
	}
	if text {
		// One row and its header, with room for columns that are not used and decimal commas.
		most, cells := 8*(problem.Elements(s.problem.Examples.Data.Shape)+1000), 1
		for _, end := range []string{",", ";", "\t", "\n"} {
			cells += bytes.Count(file, []byte(end))
		}
		if cells > most {
			return nil, refusef(422, "bad_table", "table: %d cells, more than the %d that one row may have; send one row", cells, most)
		}
	}
	rows, notes, err := s.readRows(ctx, file, invert, decodeBytes, member)
	if err != nil {
		return nil, err
	}
	if n := rows.Len(); n != 1 {
		return nil, refusef(422, "bad_"+member, "%s: %d rows; send one", member, n)
	}
	in := &input{rows: rows, names: problem.NamesOfFile(theInput, rows), subject: subject{Split: "request", NamedRow: result.NamedRow{Index: -1, Label: result.Undefined()}}}
	for _, note := range notes {
		in.Notes = append(in.Notes, strings.TrimPrefix(note, theInput+": "))
	}
	return in, s.show(ctx, in, rows)
}

// readRows reads rows from a file, as --input of the other verbs does, into at most so many bytes. The file is a member
// of the request.
func (s *service) readRows(ctx context.Context, file []byte, invert picture.Choice, most int64, member string) (*dataset.Subset, []string, error) {
	asked, err := s.problem.Read(ctx, "-", dataset.InputOptions{Invert: invert, MaxBytes: most, Standard: bytes.NewReader(file), Name: theInput})
	switch {
	case err == nil:
		return asked.Subset, asked.Notes, nil
	case interrupted(err):
		return nil, nil, err
	}
	bad := refuse(422, "bad_input", err)
	bad.Field = member
	return nil, nil, bad
}

// show fills in how an input looks.
func (s *service) show(ctx context.Context, in *input, rows *dataset.Subset) (err error) {
	e := s.problem.Examples
	if !e.Data.Images() {
		in.Values, err = features(ctx, rows.Set, rows.Pos[0])
		return err
	}
	p, err := e.Picture(ctx, rows, 0)
	if err != nil {
		return err
	}
	file, err := pngOf(p)
	in.Picture = "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
	return err
}

// features are those at a position of a set, as they are in the file.
func features(ctx context.Context, set *dataset.Set, at int) ([]result.Float, error) {
	x, err := set.Read(ctx, []int{at})
	if err != nil {
		return nil, err
	}
	return result.Floats(x.RawRowView(0)), nil
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

// removed are the positions of the training rows of a request, ascending.
func (s *service) removed(rows []int) ([]int, error) {
	if len(rows) > mostRemoved {
		return nil, refusef(422, "bad_without", "without: %d rows; take out at most %d at a time", len(rows), mostRemoved)
	}
	var list []int
	for _, row := range rows {
		i, ok := s.position[row]
		switch {
		case !ok:
			return nil, refusef(422, "bad_without", "without: row %d is none of the %s training rows", row, job.Count(len(s.position)))
		case slices.Contains(list, i):
			return nil, refusef(422, "bad_without", "without: row %d is listed twice", row)
		}
		list = append(list, i)
	}
	if len(list) == len(s.position) {
		return nil, refusef(422, "bad_without", "without: these are all training rows; leave one in")
	}
	slices.Sort(list)
	return list, nil
}
