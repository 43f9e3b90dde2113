//! Expressions from the dictionaries that vector databases take as filters.

use serde_json::{Map, Value as Json};

use super::{Expression, MAX_DEPTH, column};
use crate::{ExpressionError, Value};

type Result<T> = std::result::Result<T, ExpressionError>;

impl Expression {
    /// The expression of a dictionary such as those of Chroma, Pinecone and LangChain. Several entries are all to hold, and an
    /// empty dictionary is true for all keys.
    ///
    /// | entry | expression |
    /// | --- | --- |
    /// | `"year": 2020`, `"year": {"$eq": 2020}` | `year = 2020`; `year is null` for null |
    /// | `"year": {"$ne": 2020}`, `$gt`, `$gte`, `$lt`, `$lte` | `year != 2020`, ... |
    /// | `"lang": {"$in": ["en"]}`, `$nin` | `lang in ('en')`, `lang not in ('en')` |
    /// | `"year": {"$between": [2019, 2021]}` | `year between 2019 and 2021` |
    /// | `"year": {"$exists": true}` | `year is not null` |
    /// | `"tags": {"$contains": "new"}`, `$not_contains` | `tags contains 'new'`, ... |
    /// | `"tags": {"$contains_any": ["new"]}`, `$contains_all` | `tags contains any ('new')`, ... |
    /// | `"year": {"$not": {"$gt": 2020}}` | `not (year > 2020)` |
    /// | `"$and": [{..}, {..}]`, `$or`, `"$not": {..}` | `and`, `or`, `not` |
    ///
    /// # Errors
    /// [`ExpressionError::Json`] with the place of what is no such entry, or [`ExpressionError::Depth`].
    ///
    /// ```
    /// use jasper_attributes::Expression;
    ///
    /// let filter = serde_json::json!({"year": {"$gte": 2020, "$lt": 2024}, "lang": "de"});
    /// let expression = Expression::from_json(&filter)?;
    /// assert_eq!(expression.to_string(), "year >= 2020 and year < 2024 and lang = 'de'");
    /// # Ok::<(), jasper_attributes::ExpressionError>(())
    /// ```
    pub fn from_json(json: &Json) -> Result<Self> {
        parse(json, &Path { parent: None, name: "$", depth: 0 })
    }
}

/// Where in the JSON.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    name: &'a str,
    depth: usize,
}

impl<'a> Path<'a> {
    fn child(&'a self, name: &'a str) -> Result<Self> {
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return Err(ExpressionError::Depth(MAX_DEPTH));
        }
        Ok(Self { parent: Some(self), name, depth })
    }

    fn text(&self) -> String {
        match self.parent {
            Some(parent) => format!("{}.{}", parent.text(), self.name),
            None => self.name.into(),
        }
    }

    fn error(&self, what: impl Into<String>) -> ExpressionError {
        ExpressionError::Json { path: self.text(), what: what.into() }
    }
}

fn object<'a>(json: &'a Json, path: &Path<'_>) -> Result<&'a Map<String, Json>> {
    json.as_object().ok_or_else(|| path.error(format!("expected a dictionary, found {json}")))
}

fn array<'a>(json: &'a Json, path: &Path<'_>) -> Result<&'a [Json]> {
    json.as_array().map(Vec::as_slice).ok_or_else(|| path.error(format!("expected a list, found {json}")))
}

fn value(json: &Json, path: &Path<'_>) -> Result<Value> {
    match Value::from_json(json) {
        Some(value) if !matches!(value, Value::Keywords(_)) => Ok(value),
        _ => Err(path.error(format!("expected a string, number or boolean, found {json}"))),
    }
}

fn string(json: &Json, path: &Path<'_>) -> Result<String> {
    json.as_str().map(String::from).ok_or_else(|| path.error(format!("expected a string, found {json}")))
}

fn each<T>(json: &Json, path: &Path<'_>, item: fn(&Json, &Path<'_>) -> Result<T>) -> Result<Vec<T>> {
    let items = array(json, path)?.iter().enumerate();
    items.map(|(index, json)| item(json, &path.child(&index.to_string())?)).collect()
}

fn parse(json: &Json, path: &Path<'_>) -> Result<Expression> {
    let mut parts = Vec::new();
    for (name, json) in object(json, path)? {
        let path = path.child(name)?;
        parts.push(match name.as_str() {
            "$and" => Expression::conjunction(each(json, &path, parse)?),
            "$or" => Expression::disjunction(each(json, &path, parse)?),
            "$not" => parse(json, &path)?.not(),
            _ if name.starts_with('$') => {
                return Err(path.error("is no operator here; there are $and, $or and $not"));
            }
            _ => test(name, json, &path)?,
        });
    }
    Ok(Expression::conjunction(parts))
}

/// What an entry of a column says.
fn test(name: &str, json: &Json, path: &Path<'_>) -> Result<Expression> {
    let Some(operators) = json.as_object() else { return Ok(column(name).eq(value(json, path)?)) };
    if operators.is_empty() {
        return Err(path.error("expected an operator such as $eq, found {}"));
    }
    let mut parts = Vec::new();
    for (operator, json) in operators {
        let path = path.child(operator)?;
        let ordered = || match value(json, &path)? {
            Value::Null => Err(path.error("nothing is above or below null")),
            value => Ok(value),
        };
        let column = column(name);
        parts.push(match operator.as_str() {
            "$eq" => column.eq(value(json, &path)?),
            "$ne" => column.ne(value(json, &path)?),
            "$lt" => column.lt(ordered()?),
            "$lte" => column.le(ordered()?),
            "$gt" => column.gt(ordered()?),
            "$gte" => column.ge(ordered()?),
            "$in" => column.is_in(each(json, &path, value)?),
            "$nin" => column.is_in(each(json, &path, value)?).not(),
            "$between" => match <[Value; 2]>::try_from(each(json, &path, value)?) {
                Ok([least, most]) => column.clone().ge(least).and(column.le(most)),
                Err(values) => return Err(path.error(format!("expected two bounds, found {}", values.len()))),
            },
            "$exists" => match json.as_bool() {
                Some(true) => column.is_null().not(),
                Some(false) => column.is_null(),
                None => return Err(path.error(format!("expected true or false, found {json}"))),
            },
            "$contains" => column.contains_any([string(json, &path)?]),
            "$not_contains" => column.contains_any([string(json, &path)?]).not(),
            "$contains_any" => column.contains_any(each(json, &path, string)?),
            "$contains_all" => column.contains_all(each(json, &path, string)?),
            "$not" => test(name, json, &path)?.not(),
            _ => {
                return Err(path.error(
                    "is no operator; there are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $between, $exists, $contains, \
                     $not_contains, $contains_any, $contains_all and $not",
                ));
            }
        });
    }
    Ok(Expression::conjunction(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(json: Json) -> String {
        match Expression::from_json(&json) {
            Ok(expression) => expression.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn dictionaries_are_parsed() {
        for (json, expected) in [
            (json!({}), "true"),
            (json!({"a": 1, "b": "x", "c": null, "d": true}), "a = 1 and b = 'x' and c is null and d = true"),
            (json!({"a": {"$gte": 1, "$lt": 2.5}}), "a >= 1 and a < 2.5"),
            (
                json!({"$or": [{"a": {"$ne": 1}}, {"a": {"$in": [1, 2]}, "b": {"$nin": []}}]}),
                "a != 1 or a in (1, 2) and b not in ()",
            ),
            (json!({"a": {"$exists": true}, "b": {"$exists": false}}), "a is not null and b is null"),
            (
                json!({"t": {"$contains": "x"}, "$not": {"t": {"$contains_all": ["x", "y"]}}}),
                "t contains 'x' and not (t contains all ('x', 'y'))",
            ),
            (json!({"a": {"$not": {"$between": [1, 2]}}}), "not (a >= 1 and a <= 2)"),
        ] {
            assert_eq!(parsed(json), expected);
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (json, expected) in [
            (json!([]), "$: expected a dictionary, found []"),
            (json!({"$nor": []}), "$.$nor: is no operator here; there are $and, $or and $not"),
            (
                json!({"$and": [{}, {"year": {"$gte": [1]}}]}),
                "$.$and.1.year.$gte: expected a string, number or boolean, found [1]",
            ),
            (json!({"a": {"$lt": null}}), "$.a.$lt: nothing is above or below null"),
            (json!({"a": {}}), "$.a: expected an operator such as $eq, found {}"),
            (json!({"a": {"$in": 3}}), "$.a.$in: expected a list, found 3"),
            (json!({"a": {"$contains": 3}}), "$.a.$contains: expected a string, found 3"),
        ] {
            assert_eq!(parsed(json), expected);
        }
        assert!(
            parsed(json!({"a": {"$regex": "x"}})).starts_with("$.a.$regex: is no operator; there are $eq")
        );
        let deep = (0..200).fold(json!({}), |inner, _| json!({"$not": inner}));
        assert_eq!(parsed(deep), "an expression may be nested 100 deep");
    }
}
