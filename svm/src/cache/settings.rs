//! How large the page cache is, and its pages.

use serde::{Deserialize, Serialize};
use svmio_transport::settings::byte_size;

/// The page cache of one node and job.
///
/// ```
/// use svmio_svm::CacheSettings;
///
/// let settings = CacheSettings::default();
/// assert_eq!(settings.page, 64 << 10);
/// settings.check()?;
/// assert!(CacheSettings { page: 3000, ..settings }.check().is_err());
/// # Ok::<(), svmio_svm::InvalidCacheSettings>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// Bytes of a page, the unit in which remote parts are fetched: a power of two from 4 KiB to 16 MiB.
    ///
    /// By default 64 KiB. A page should take about as long on the wire as the request for it takes to go
    /// there and be noticed: much smaller, and a sequential reader pays mostly for requests; much larger,
    /// and one who wants a few bytes pays mostly for bytes that he does not want. Networks from 1 to
    /// 25 GB/s with 2 to 50 µs for a request put that between 25 and 100 KB.
    pub page: u64,
    /// Bytes of all pages together, at least one page.
    ///
    /// By default 256 MiB. It is a limit, not a reservation: pages that were never used take no memory. It
    /// holds what the processes of a node read again (headers, halos, index blocks), or write in small pieces
    /// before they flush; longer transfers pass the cache by. 4,096 pages are more than the sum of the
    /// working sets of some hundred processes of that kind, and less than a hundredth of what nodes with so
    /// many processors have.
    pub capacity: u64,
}

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings { page: 64 << 10, capacity: 256 << 20 }
    }
}

/// Settings that no page cache can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCacheSettings {
    /// The text in an environment variable is no size.
    #[error("{variable}={text}: not a size; give bytes as 65536, or with a suffix as 64K, 256M or 1G")]
    NotASize {
        /// The variable.
        variable: &'static str,
        /// What it contains.
        text: String,
    },
    /// The page size is not possible.
    #[error("cache pages of {page} bytes ({PAGE}): give a power of two from 4K to 16M")]
    Page {
        /// The page size that was asked for, bytes.
        page: u64,
    },
    /// The capacity is not possible.
    #[error(
        "a page cache of {capacity} bytes ({CAPACITY}): give at least one page ({page} bytes) and at most {most} bytes"
    )]
    Capacity {
        /// The capacity that was asked for, bytes.
        capacity: u64,
        /// The page size, bytes.
        page: u64,
        /// The largest possible capacity, bytes.
        most: u64,
    },
}

const PAGE: &str = "SVMIO_CACHE_PAGE";
const CAPACITY: &str = "SVMIO_CACHE_CAPACITY";
/// Pages: 16 TiB of the default size.
const MOST_PAGES: u64 = 1 << 28;
/// Bytes: what one process can map beside everything else.
const MOST_BYTES: u64 = 1 << 45;

impl CacheSettings {
    /// The largest page, bytes.
    pub const LARGEST_PAGE: u64 = 16 << 20;

    /// The settings that `SVMIO_CACHE_PAGE` and `SVMIO_CACHE_CAPACITY` ask for, sizes like `65536`, `64K`, `256M`
    /// or `1G`; the default for what is not set.
    ///
    /// # Errors
    /// Names the variable that has no usable value.
    pub fn from_environment() -> Result<CacheSettings, InvalidCacheSettings> {
        CacheSettings::from_variables(|variable| {
            let text = std::env::var_os(variable).filter(|text| !text.is_empty());
            text.map(|text| text.to_string_lossy().into_owned())
        })
    }

    /// Whether a page cache can have these settings.
    ///
    /// # Errors
    /// Says what it can have instead.
    pub fn check(&self) -> Result<(), InvalidCacheSettings> {
        let CacheSettings { page, capacity } = *self;
        if !page.is_power_of_two() || !(4 << 10..=Self::LARGEST_PAGE).contains(&page) {
            return Err(InvalidCacheSettings::Page { page });
        }
        let most = MOST_PAGES.saturating_mul(page).min(MOST_BYTES);
        if !(page..=most).contains(&capacity) {
            return Err(InvalidCacheSettings::Capacity { capacity, page, most });
        }
        Ok(())
    }

    fn from_variables(
        value: impl Fn(&'static str) -> Option<String>,
    ) -> Result<CacheSettings, InvalidCacheSettings> {
        let size = |variable, otherwise| match value(variable) {
            None => Ok(otherwise),
            Some(text) => byte_size(&text).ok_or(InvalidCacheSettings::NotASize { variable, text }),
        };
        let default = CacheSettings::default();
        let settings =
            CacheSettings { page: size(PAGE, default.page)?, capacity: size(CAPACITY, default.capacity)? };
        settings.check()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(page: Option<&str>, capacity: Option<&str>) -> Result<CacheSettings, InvalidCacheSettings> {
        CacheSettings::from_variables(|variable| {
            if variable == PAGE { page } else { capacity }.map(str::to_owned)
        })
    }

    #[test]
    fn settings_come_from_the_environment() {
        assert_eq!(with(None, None), Ok(CacheSettings::default()));
        assert_eq!(with(Some("4K"), Some("12288")), Ok(CacheSettings { page: 4 << 10, capacity: 12 << 10 }));
        assert_eq!(with(None, Some("1g")), Ok(CacheSettings { page: 64 << 10, capacity: 1 << 30 }));
        assert_eq!(with(None, Some("64K")).unwrap().capacity, 64 << 10);
    }

    #[test]
    fn a_useless_value_is_refused_with_the_name_of_its_variable() {
        for bad in ["", "K", "-1", "12Q", "3K", "32M", "0", "18446744073709551615G"] {
            let error = with(Some(bad), None).unwrap_err().to_string();
            assert!(error.contains(PAGE), "{bad}: {error}");
        }
        for bad in ["", "lots", "32K", "0", "99999999G", "99999999999999G"] {
            let error = with(None, Some(bad)).unwrap_err().to_string();
            assert!(error.contains(CAPACITY), "{bad}: {error}");
        }
    }
}
