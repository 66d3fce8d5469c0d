package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// contentType is the content type of the other process.
const contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// family is the compared part of a metric.
type family struct {
	kind string
	// labels are the label names of its series, sorted, without le.
	labels []string
	// results are the values of the label result, which is a closed set.
	results []string
	buckets []float64
}

// families maps names, as the series of counters and gauges have them, to families.
type families map[string]*family

func (f *family) addLabel(name, value string) {
	switch name {
	case "__name__":
	case "le":
		bound, err := strconv.ParseFloat(value, 64)
		if err == nil && !math.IsInf(bound, 1) {
			f.buckets = insert(f.buckets, bound)
		}
	default:
		f.labels = insert(f.labels, name)
		if name == "result" {
			f.results = insert(f.results, value)
		}
	}
}

func insert[T float64 | string](sorted []T, value T) []T {
	index, found := slices.BinarySearch(sorted, value)
	if found {
		return sorted
	}
	return slices.Insert(sorted, index, value)
}

// parse parses OpenMetrics text as Prometheus does when it scrapes.
func parse(text []byte) (families, error) {
	parser, err := textparse.New(text, contentType, nil, textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	found := families{}
	var current *family
	var name string
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		switch entry {
		case textparse.EntryType:
			metric, kind := parser.Type()
			name = string(metric)
			current = &family{kind: string(kind)}
			found[name+suffix(kind)] = current
		case textparse.EntrySeries:
			var series labels.Labels
			parser.Labels(&series)
			if full := series.Get("__name__"); current == nil || !strings.HasPrefix(full, name) {
				return nil, fmt.Errorf("%s has no type", full)
			}
			series.Range(func(label labels.Label) { current.addLabel(label.Name, label.Value) })
		}
	}
}

// suffix returns what OpenMetrics omits from the name of a family.
func suffix(kind model.MetricType) string {
	switch kind {
	case model.MetricTypeCounter:
		return "_total"
	case model.MetricTypeInfo:
		return "_info"
	default:
		return ""
	}
}

// gathered converts the metrics of a Go registry.
func gathered(metrics []*dto.MetricFamily) families {
	found := families{}
	for _, metric := range metrics {
		current := &family{kind: strings.ToLower(metric.GetType().String())}
		for _, series := range metric.GetMetric() {
			for _, label := range series.GetLabel() {
				current.addLabel(label.GetName(), label.GetValue())
			}
			for _, bucket := range series.GetHistogram().GetBucket() {
				if bound := bucket.GetUpperBound(); !math.IsInf(bound, 1) {
					current.buckets = insert(current.buckets, bound)
				}
			}
		}
		found[metric.GetName()] = current
	}
	return found
}
