package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A field is a variable of a configuration struct.
type field struct {
	variable string
	fallback string // the default
	required bool
	min      int      // for a secret: its minimum number of bytes
	schemes  []string // for a URL: those allowed; nil for any
	doc      string
	tags     reflect.StructField
	value    reflect.Value
}

// fieldsOf returns the variables of cfg in source order. Their values can be set if cfg is
// a pointer.
func fieldsOf(cfg any) []field {
	v := reflect.ValueOf(cfg)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: %T is no struct", cfg))
	}
	return appendFields(nil, v)
}

func appendFields(list []field, v reflect.Value) []field {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		key, tagged := sf.Tag.Lookup("env")
		switch {
		case tagged:
			list = append(list, newField(sf, key, v.Field(i)))
		case sf.Type.Kind() == reflect.Struct:
			list = appendFields(list, v.Field(i))
		}
	}
	return list
}

func newField(sf reflect.StructField, key string, v reflect.Value) field {
	options := strings.Split(key, ",")
	f := field{
		variable: options[0],
		fallback: sf.Tag.Get("envDefault"),
		required: slices.Contains(options, "required"),
		doc:      sf.Tag.Get("doc"),
		tags:     sf,
		value:    v,
	}
	if text, ok := sf.Tag.Lookup("min"); ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(fmt.Sprintf("config: %s: min:%q is no number", f.variable, text))
		}
		f.min = n
	}
	if text, ok := sf.Tag.Lookup("schemes"); ok {
		f.schemes = strings.Split(text, ",")
	}
	f.check(options)
	return f
}

var (
	secretName = regexp.MustCompile(`(SECRET|PASSWORD|TOKEN|KEY)$`)
	urlName    = regexp.MustCompile(`URL$`)
)

// check panics if the struct lacks something whose absence would otherwise show only in an
// incident.
func (f field) check(options []string) {
	switch {
	case f.doc == "":
		panic("config: " + f.variable + " has no doc tag")
	case !f.tags.IsExported():
		panic("config: " + f.variable + " is held by an unexported field")
	case f.required && !slices.Contains(options, "notEmpty"):
		panic("config: " + f.variable + " is required and lacks notEmpty")
	case secretName.MatchString(f.variable) && !f.secret():
		panic("config: " + f.variable + " is held by no config.Secret")
	case f.tags.Type == reflect.TypeFor[url.URL](), f.tags.Type == reflect.TypeFor[*url.URL](),
		urlName.MatchString(f.variable) && f.tags.Type != reflect.TypeFor[URL]() && f.tags.Type != reflect.TypeFor[[]URL]():
		panic("config: " + f.variable + " is held by no config.URL")
	case f.min > 0 && !f.secret():
		panic("config: " + f.variable + " has a min tag and is no config.Secret")
	case f.schemes != nil && f.tags.Type != reflect.TypeFor[URL]():
		panic("config: " + f.variable + " has a schemes tag and is no config.URL")
	}
}

func (f field) secret() bool {
	return f.tags.Type == reflect.TypeFor[Secret]() || f.tags.Type == reflect.TypeFor[[]Secret]()
}

func (f field) secrets() []Secret {
	switch v := f.value.Interface().(type) {
	case Secret:
		return []Secret{v}
	case []Secret:
		return v
	}
	return nil
}

// show returns the field's value for printing, without secrets.
func (f field) show() string {
	switch v := f.value.Interface().(type) {
	case Secret:
		if v == "" {
			return ""
		}
	case slog.Level:
		return strings.ToLower(v.String())
	}
	if f.value.Kind() == reflect.Slice && f.value.Len() == 0 {
		return ""
	}
	return fmt.Sprint(f.value.Interface())
}

// A want says what a value should look like, without quoting it.
type want string

func (w want) Error() string { return "want " + string(w) }

// want describes the values of types that are not defined in this package.
func (f field) want() want {
	switch f.tags.Type {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 30s or 5m"
	case reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	}
	switch f.tags.Type.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String, reflect.Slice, reflect.Struct, reflect.Map:
		return "another form"
	}
	return "a whole number"
}
