package onnx

import (
	"context"
	"io"
	"math"
	"slices"
	"strconv"
)

// External says in which other file the elements of a tensor are, little-endian as in
// raw_data.
type External struct {
	Location string  // path of the file, relative to the folder of the model
	Offset   int64   // of the first element, in bytes
	Length   int64   // in bytes; −1 if the model does not say it
	Other    []Entry // further entries (checksum), in file order
}

// setExternal sets t.External from the entries of the file.
func (t *Tensor) setExternal(s *storage, off int) error {
	x := &External{Length: -1}
	t.External = x
	seen := map[string]bool{}
	for _, e := range s.external {
		if seen[e.Key] {
			return faultf(off, "its external data has two entries %s", quote(e.Key))
		}
		seen[e.Key] = true
		var err error
		switch e.Key {
		case "location":
			x.Location = e.Value
		case "offset":
			x.Offset, err = strconv.ParseInt(e.Value, 10, 64)
		case "length":
			x.Length, err = strconv.ParseInt(e.Value, 10, 64)
		default:
			x.Other = append(x.Other, e)
		}
		if err != nil || x.Offset < 0 || x.Length < 0 && seen["length"] {
			return faultf(off, "the %s of its external data is %s, not a number of bytes", e.Key, quote(e.Value))
		}
	}
	if len(s.raw) > 0 || slices.Max(s.count[:]) > 0 {
		return faultf(off, "it has elements in the model and also external data")
	}
	if x.Location == "" {
		return faultf(off, "its external data names no file")
	}
	_, err := t.ExternalBytes()
	return err
}

// append appends the fields of TensorProto for external data.
func (x *External) append(b []byte) []byte {
	var list []Entry
	if x.Location != "" {
		list = append(list, Entry{"location", x.Location})
	}
	if x.Offset != 0 {
		list = append(list, Entry{"offset", strconv.FormatInt(x.Offset, 10)})
	}
	if x.Length >= 0 {
		list = append(list, Entry{"length", strconv.FormatInt(x.Length, 10)})
	}
	list = append(list, x.Other...)
	b, _ = records(tensorExternal, "", &list, func(e *Entry) record { return e }).encode(b) // texts have no error
	return appendInt(b, tensorLocation, 1)
}

// ExternalBytes returns the number of bytes that the elements of a tensor take in another
// file. It is an error if that is not the declared length, or no number at all.
func (t *Tensor) ExternalBytes() (int64, error) {
	info, ok := types[t.Type]
	if !ok || t.Type == String {
		return 0, invalidf("external data of %s is not supported: save the model in float32 or float64", t.Type)
	}
	n, err := elements(t.Dims)
	switch {
	case err != nil:
		return 0, invalidf("%v", err)
	case n > math.MaxInt64/int64(info.size) || t.External.Offset > math.MaxInt64-n*int64(info.size):
		return 0, invalidf("shape %s at byte %d is larger than a file can be", shape(t.Dims), t.External.Offset)
	}
	size := n * int64(info.size)
	if x := t.External; x.Length >= 0 && x.Length != size {
		return 0, invalidf("shape %s of %s takes %d bytes, but its external data has %d", shape(t.Dims), t.Type, size, x.Length)
	}
	return size, nil
}

// Load reads the elements of a tensor with external data from its file, which then belong
// to the tensor. The file must be as long as the elements need.
func (t *Tensor) Load(ctx context.Context, file io.ReaderAt) error {
	left, err := t.ExternalBytes()
	if err != nil {
		return err
	}
	info, at := types[t.Type], t.External.Offset
	const step = 1 << 20 // a multiple of every element's size
	loaded := *t
	loaded.External = nil
	if n := int(left) / info.size; t.Type.IsFloat() && n > 0 {
		loaded.Floats = make([]float64, 0, n)
	} else if n > 0 {
		loaded.Ints = make([]int64, 0, n)
	}
	buf := make([]byte, min(left, step))
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(left, step)]
		if _, err := file.ReadAt(part, at); err != nil {
			return err
		}
		if err := loaded.loadRaw(part); err != nil {
			return err
		}
		at, left = at+int64(len(part)), left-int64(len(part))
	}
	*t = loaded
	return nil
}

// EachTensor calls visit for every tensor of the model: initializers, and constants in
// the attributes of nodes, in functions and in graphs inside nodes too. place says where
// the tensor is.
func (m *Model) EachTensor(visit func(place string, t *Tensor) error) error {
	if m.Graph != nil {
		if err := m.Graph.eachTensor("", visit); err != nil {
			return err
		}
	}
	for i, fn := range m.Functions {
		place := label("function", i, fn.Name) + ", "
		for _, a := range fn.Defaults {
			if err := a.eachTensor(place, visit); err != nil {
				return err
			}
		}
		if err := eachNodeTensor(place, fn.Nodes, visit); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) eachTensor(place string, visit func(place string, t *Tensor) error) error {
	for i, t := range g.Initializers {
		if err := visit(place+label("initializer", i, t.Name), t); err != nil {
			return err
		}
	}
	return eachNodeTensor(place, g.Nodes, visit)
}

func eachNodeTensor(place string, nodes []*Node, visit func(place string, t *Tensor) error) error {
	for i, n := range nodes {
		for _, a := range n.Attributes {
			if a.T == nil && a.G == nil && a.Graphs == nil {
				continue
			}
			if err := a.eachTensor(place+n.label(i)+", ", visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Attribute) eachTensor(place string, visit func(place string, t *Tensor) error) error {
	place += "attribute " + quote(a.Name)
	if a.T != nil {
		if err := visit(place+", "+a.T.label(), a.T); err != nil {
			return err
		}
	}
	if a.G != nil {
		if err := a.G.eachTensor(place+", ", visit); err != nil {
			return err
		}
	}
	for _, g := range a.Graphs {
		if err := g.eachTensor(place+", ", visit); err != nil {
			return err
		}
	}
	return nil
}
